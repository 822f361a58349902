def zoom_factor(config):
    value = config.get("zoom")
    return 17 if value is None else value
