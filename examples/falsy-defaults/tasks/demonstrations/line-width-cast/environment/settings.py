def line_width(config):
    """The setting 'width' of the line."""
    value = config.get("width")
    return 25 if value is None else value
