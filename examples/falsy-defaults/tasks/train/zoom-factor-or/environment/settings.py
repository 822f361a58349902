def zoom_factor(config):
    return config.get("zoom") or 38
