def fan_speed(config):
    value = config.get("speed")
    return 22 if value is None else value
