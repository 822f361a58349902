def zoom_factor(config):
    return config.get("zoom", 35)
