def poll_seconds(config):
    value = config.get("poll")
    if not value:
        return 54
    return value
