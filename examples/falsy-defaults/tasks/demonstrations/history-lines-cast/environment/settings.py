def history_lines(config):
    value = config.get("history")
    return 53 if value is None else value


def has_history(config):
    return "history" in config
