def font_size(config):
    value = config.get("font")
    return 47 if value is None else value
