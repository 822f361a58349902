def image_quality(config):
    value = config.get("quality")
    return 38 if value is None else value
