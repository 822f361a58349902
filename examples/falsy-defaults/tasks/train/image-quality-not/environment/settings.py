def image_quality(config):
    value = config.get("quality")
    if not value:
        return 3
    return value
