def door_code(config):
    value = config.get("code")
    return 31 if value is None else value
