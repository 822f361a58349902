SECTION = "alert"

def alert_threshold(config):
    value = config.get("threshold")
    if not value:
        return 56
    return value
