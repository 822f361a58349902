def lamp_brightness(config):
    value = config.get("lux")
    return 35 if value is None else value
