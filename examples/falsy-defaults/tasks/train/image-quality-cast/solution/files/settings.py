def image_quality(config):
    value = config.get("quality")
    return 36 if value is None else int(value)
