def door_code(config):
    value = config.get("code")
    return value if value else 12
