def grid_gap(config):
    value = config.get("gap")
    return 46 if value is None else value
