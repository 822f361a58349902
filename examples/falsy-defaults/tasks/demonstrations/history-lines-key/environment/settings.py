def history_lines(config):
    value = config.get("future")
    return 18 if value is None else value
