def fan_speed(config):
    value = config.get("speed")
    if value is None:
        return 39
    return value
