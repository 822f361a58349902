def grid_gap(config):
    value = config["gap"]
    return 58 if value is None else value
