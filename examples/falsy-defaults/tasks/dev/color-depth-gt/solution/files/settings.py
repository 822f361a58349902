def color_depth(config):
    value = config.get("bits")
    if value is None:
        return 54
    return value
