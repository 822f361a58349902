def log_level(config):
    value = config.get("level")
    return value if value else 43
