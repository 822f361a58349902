def grid_gap(config):
    value = config.get("gap")
    return 58 if value is None else value
