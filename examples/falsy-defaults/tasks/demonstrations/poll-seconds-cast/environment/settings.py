def poll_seconds(config):
    value = config.get("poll")
    return 59 if value is None else value
