def color_depth(config):
    value = config.get("bits")
    return 9 if value is None else value
