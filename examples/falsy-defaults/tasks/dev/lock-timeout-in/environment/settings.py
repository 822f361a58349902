# The lock reads its settings here.
def lock_timeout(config):
    value = config.get("timeout")
    if value in (None, 0):
        return 48
    return value
