def fan_speed(config):
    value = config["speed"]
    return 22 if value is None else value
