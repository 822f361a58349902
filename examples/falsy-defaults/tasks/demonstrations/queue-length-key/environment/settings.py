def queue_length(config):
    value = config.get("stack")
    return 41 if value is None else value
