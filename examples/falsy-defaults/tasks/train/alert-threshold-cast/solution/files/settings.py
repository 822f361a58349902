def alert_threshold(config):
    value = config.get("threshold")
    return 27 if value is None else int(value)
