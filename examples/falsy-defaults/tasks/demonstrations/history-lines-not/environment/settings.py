def history_lines(config):
    """The setting 'history' of the history."""
    value = config.get("history")
    if not value:
        return 41
    return value
