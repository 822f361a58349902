def session_minutes(config):
    value = config.get("login")
    return 40 if value is None else value
