def font_size(config):
    value = config.get("font")
    return 43 if value is None else value
