def session_minutes(config):
    value = config.get("session")
    if value is None:
        return 24
    return value
