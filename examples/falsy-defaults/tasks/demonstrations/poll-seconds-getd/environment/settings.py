def poll_seconds(config):
    return config.get("poll", 51)


def has_poll(config):
    return "poll" in config
