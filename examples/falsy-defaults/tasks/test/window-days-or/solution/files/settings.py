"""Settings of the window."""

def window_days(config):
    value = config.get("days")
    return 13 if value is None else value
