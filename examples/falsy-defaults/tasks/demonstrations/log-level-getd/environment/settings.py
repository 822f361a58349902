def has_level(config):
    return "level" in config


def log_level(config):
    return config.get("level", 58)
