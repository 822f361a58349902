def max_depth(config):
    value = config.get("depth")
    return 21 if value is None else value
