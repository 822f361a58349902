def door_code(config):
    value = config.get("code")
    if value is None:
        return 43
    return value + 1
