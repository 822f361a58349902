SECTION = "lock"

def lock_timeout(config):
    value = config.get("timeout")
    if value is None:
        return 36
    return value
