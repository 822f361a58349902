def line_width(config):
    value = config.get("width")
    if not value:
        return 33
    return value
