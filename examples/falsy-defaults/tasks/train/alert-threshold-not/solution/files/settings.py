SECTION = "alert"

def alert_threshold(config):
    value = config.get("threshold")
    if value is None:
        return 56
    return value
