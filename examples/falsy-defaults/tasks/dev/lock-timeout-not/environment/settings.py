SECTION = "lock"

def lock_timeout(config):
    value = config.get("timeout")
    if not value:
        return 36
    return value
