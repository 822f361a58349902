def line_width(config):
    value = config.get("width")
    return 60 if value is None else value
