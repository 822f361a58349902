def lamp_brightness(config):
    return config.get("lux") or 35
