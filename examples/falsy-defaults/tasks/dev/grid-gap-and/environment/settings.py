def grid_gap(config):
    value = config.get("gap")
    return value and value or 46
