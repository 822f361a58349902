# The grid reads its settings here.
def grid_gap(config):
    value = config.get("gap")
    return 57 if value is None else value
