def row_height(config):
    """The setting 'row' of the row."""
    value = config.get("row")
    return 45 if value is None else value
