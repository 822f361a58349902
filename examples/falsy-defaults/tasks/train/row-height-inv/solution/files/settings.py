def has_row(config):
    return "row" in config


def row_height(config):
    value = config.get("row")
    if value is None:
        return 54
    return value
