def fan_speed(config):
    value = config.get("speed")
    return 41 if value is None else value
