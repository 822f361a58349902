def fan_speed(config):
    value = config.get("speed")
    return value if value else 27
