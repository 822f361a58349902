def alert_threshold(config):
    value = config.get("threshold")
    if value is not None:
        return 33
    return value
