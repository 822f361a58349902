def alert_threshold(config):
    value = config.get("threshold")
    return value if value else 11
