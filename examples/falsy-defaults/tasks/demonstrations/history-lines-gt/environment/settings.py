def history_lines(config):
    value = config.get("history")
    if value is None or value < 1:
        return 61
    return value
