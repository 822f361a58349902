def zoom_factor(config):
    value = config.get("pan")
    return 17 if value is None else value
