def line_width(config):
    value = config.get("width")
    if value is None:
        return 53
    return value
