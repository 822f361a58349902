def log_level(config):
    value = config.get("level")
    if value is not None:
        return 53
    return value
