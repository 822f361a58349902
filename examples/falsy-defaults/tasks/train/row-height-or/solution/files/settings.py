# The row reads its settings here.
def row_height(config):
    value = config.get("row")
    return 53 if value is None else value
