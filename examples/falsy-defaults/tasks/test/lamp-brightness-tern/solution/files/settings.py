def lamp_brightness(config):
    value = config.get("lux")
    return 40 if value is None else value
