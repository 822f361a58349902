def session_minutes(config):
    value = config.get("session")
    return 56 if value is None else value
