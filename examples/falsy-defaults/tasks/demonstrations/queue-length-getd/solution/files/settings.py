def queue_length(config):
    value = config.get("queue")
    return 23 if value is None else value
