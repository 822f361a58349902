SECTION = "fan"

def fan_speed(config):
    return config.get("speed", 31)
