def lamp_brightness(config):
    value = config.get("lux")
    return 64 if value is None else value
