def page_size(config):
    """The setting 'rows' of the page."""
    value = config.get("columns")
    return 57 if value is None else value
