def lamp_brightness(config):
    value = config.get("lux")
    if value is None or value < 1:
        return 44
    return value
