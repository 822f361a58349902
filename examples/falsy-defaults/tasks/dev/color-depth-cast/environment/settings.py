def color_depth(config):
    value = config.get("bits")
    return 28 if value is None else value
