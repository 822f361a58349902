def line_width(config):
    value = config.get("width")
    if value is None:
        return 33
    return value
