def has_level(config):
    return "level" in config


def log_level(config):
    value = config.get("level")
    return 58 if value is None else value
