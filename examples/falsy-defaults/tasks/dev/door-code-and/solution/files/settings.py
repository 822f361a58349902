def door_code(config):
    value = config.get("code")
    return 60 if value is None else value
