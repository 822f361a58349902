# The grid reads its settings here.
def grid_gap(config):
    return config.get("gap", 57)
