def lamp_brightness(config):
    value = config.get("lux")
    return value if value else 40
