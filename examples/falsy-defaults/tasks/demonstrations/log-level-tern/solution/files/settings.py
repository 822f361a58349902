def log_level(config):
    value = config.get("level")
    return 43 if value is None else value
