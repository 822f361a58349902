def queue_length(config):
    value = config.get("queue")
    return 41 if value is None else value
