SECTION = "session"

def session_minutes(config):
    return config.get("session") or 56
