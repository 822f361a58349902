"""Settings of the alert."""

def alert_threshold(config):
    value = config.get("threshold")
    if value is None:
        return 53
    return value + 1
