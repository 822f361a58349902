"""Settings of the window."""

def window_days(config):
    return config.get("days") or 13
