# The row reads its settings here.
def row_height(config):
    return config.get("row") or 53
