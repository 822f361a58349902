def alert_threshold(config):
    value = config.get("threshold")
    return 11 if value is None else value
