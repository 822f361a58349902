def color_depth(config):
    value = config.get("bits")
    if value is None or value < 1:
        return 54
    return value
