def font_size(config):
    value = config.get("font")
    if value is None:
        return 20
    return value
