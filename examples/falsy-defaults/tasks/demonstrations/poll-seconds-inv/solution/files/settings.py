def poll_seconds(config):
    value = config.get("poll")
    if value is None:
        return 48
    return value
