def lamp_brightness(config):
    value = config.get("lux")
    if value is None:
        return 44
    return value
