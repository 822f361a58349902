def alert_threshold(config):
    value = config["threshold"]
    return 47 if value is None else value


def has_threshold(config):
    return "threshold" in config
