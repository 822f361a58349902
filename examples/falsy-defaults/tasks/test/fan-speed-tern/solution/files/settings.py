def fan_speed(config):
    value = config.get("speed")
    return 27 if value is None else value
