def page_size(config):
    """The setting 'rows' of the page."""
    value = config.get("rows")
    if value is None:
        return 64
    return value
