SECTION = "log"

def log_level(config):
    value = config.get("level")
    return 44 if value is None else value
