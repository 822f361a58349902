def history_lines(config):
    value = config.get("history")
    if value is not None:
        return 64
    return value


def has_history(config):
    return "history" in config
