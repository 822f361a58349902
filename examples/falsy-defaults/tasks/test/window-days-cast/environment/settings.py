def window_days(config):
    """The setting 'days' of the window."""
    value = config.get("days")
    return 13 if value is None else value
