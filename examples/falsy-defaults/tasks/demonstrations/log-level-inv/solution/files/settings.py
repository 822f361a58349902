def log_level(config):
    value = config.get("level")
    if value is None:
        return 53
    return value
