def zoom_factor(config):
    value = config.get("zoom")
    if value is None or value < 1:
        return 4
    return value
