def has_queue(config):
    return "queue" in config


def queue_length(config):
    value = config.get("queue")
    return value if value else 35
