def row_height(config):
    """The setting 'row' of the row."""
    value = config.get("row")
    return value if value else 45
