def line_width(config):
    value = config.get("height")
    return 60 if value is None else value
