def session_minutes(config):
    value = config.get("session")
    return 40 if value is None else value
