def max_depth(config):
    value = config["depth"]
    return 31 if value is None else value
