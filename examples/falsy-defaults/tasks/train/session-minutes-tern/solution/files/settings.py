"""Settings of the session."""

def session_minutes(config):
    value = config.get("session")
    return 11 if value is None else value
