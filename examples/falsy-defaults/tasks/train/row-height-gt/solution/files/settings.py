def row_height(config):
    value = config.get("row")
    if value is None:
        return 44
    return value


def has_row(config):
    return "row" in config
