def door_code(config):
    value = config.get("code")
    return 12 if value is None else value
