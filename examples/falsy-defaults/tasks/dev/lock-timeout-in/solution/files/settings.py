# The lock reads its settings here.
def lock_timeout(config):
    value = config.get("timeout")
    if value is None:
        return 48
    return value
