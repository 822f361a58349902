def font_size(config):
    value = config.get("font")
    if value is None or value < 1:
        return 20
    return value
