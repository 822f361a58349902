SECTION = "fan"

def fan_speed(config):
    value = config.get("speed")
    return 31 if value is None else value
