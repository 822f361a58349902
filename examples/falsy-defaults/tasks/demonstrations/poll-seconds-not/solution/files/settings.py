def poll_seconds(config):
    value = config.get("poll")
    if value is None:
        return 54
    return value
