def history_lines(config):
    value = config.get("history")
    return 18 if value is None else value
