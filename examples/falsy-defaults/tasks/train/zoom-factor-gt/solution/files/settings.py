def zoom_factor(config):
    value = config.get("zoom")
    if value is None:
        return 4
    return value
