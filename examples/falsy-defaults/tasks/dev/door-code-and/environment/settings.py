def door_code(config):
    value = config.get("code")
    return value and value or 60
