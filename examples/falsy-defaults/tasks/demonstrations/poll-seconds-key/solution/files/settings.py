def poll_seconds(config):
    value = config.get("poll")
    return 46 if value is None else value


def has_poll(config):
    return "poll" in config
