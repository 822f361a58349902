def lamp_brightness(config):
    value = config.get("lux")
    return value and value or 64
