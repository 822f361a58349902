def has_queue(config):
    return "queue" in config


def queue_length(config):
    value = config.get("queue")
    return 35 if value is None else value
