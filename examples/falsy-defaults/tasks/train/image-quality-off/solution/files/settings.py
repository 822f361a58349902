def image_quality(config):
    value = config.get("quality")
    if value is None:
        return 22
    return value
