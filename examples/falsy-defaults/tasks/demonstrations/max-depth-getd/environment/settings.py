def max_depth(config):
    return config.get("depth", 21)
