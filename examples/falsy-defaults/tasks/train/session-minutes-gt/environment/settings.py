def session_minutes(config):
    value = config.get("session")
    if value is None or value < 1:
        return 24
    return value
