def grid_gap(config):
    value = config.get("gap")
    if value is not None:
        return 31
    return value
