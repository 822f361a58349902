def color_depth(config):
    return config.get("bits") or 9
