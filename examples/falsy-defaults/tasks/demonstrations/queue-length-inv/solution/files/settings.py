def has_queue(config):
    return "queue" in config


def queue_length(config):
    value = config.get("queue")
    if value is None:
        return 27
    return value
