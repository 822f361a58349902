def line_width(config):
    value = config.get("width")
    if value is None:
        return 38
    return value
