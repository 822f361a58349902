def has_timeout(config):
    return "timeout" in config


def lock_timeout(config):
    value = config.get("timeout")
    if value is None:
        return 48
    return value
