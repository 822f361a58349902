def color_depth(config):
    value = config.get("bits")
    if value is None:
        return 13
    return value + 1
