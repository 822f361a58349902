def row_height(config):
    value = config.get("row")
    if value is None or value < 1:
        return 44
    return value


def has_row(config):
    return "row" in config
