def door_code(config):
    return config.get("code", 31)
