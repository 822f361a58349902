def session_minutes(config):
    return config.get("session", 56)
