"""Settings of the session."""

def session_minutes(config):
    value = config.get("session")
    return value if value else 11
