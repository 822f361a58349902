def history_lines(config):
    value = config.get("history")
    if value is None:
        return 61
    return value
