def line_width(config):
    value = config.get("width")
    if value is None or value < 1:
        return 53
    return value
