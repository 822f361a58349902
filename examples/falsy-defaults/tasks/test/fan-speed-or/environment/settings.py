def fan_speed(config):
    return config.get("speed") or 41
