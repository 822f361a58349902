def queue_length(config):
    return config.get("queue", 23)
