def zoom_factor(config):
    value = config.get("zoom")
    return 38 if value is None else value
