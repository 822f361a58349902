def poll_seconds(config):
    value = config.get("poll")
    if value is not None:
        return 48
    return value
