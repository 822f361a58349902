def has_queue(config):
    return "queue" in config


def queue_length(config):
    value = config.get("queue")
    if value is not None:
        return 27
    return value
