def grid_gap(config):
    value = config.get("gap")
    if value is None:
        return 31
    return value
