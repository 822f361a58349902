def zoom_factor(config):
    value = config.get("zoom")
    return 35 if value is None else value
