# The row reads its settings here.
def row_height(config):
    value = config.get("row")
    return 9 if value is None else value
