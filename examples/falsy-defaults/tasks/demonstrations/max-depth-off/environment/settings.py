def max_depth(config):
    value = config.get("depth")
    if value is None:
        return 31
    return value + 1
