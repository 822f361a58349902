def queue_length(config):
    value = config["queue"]
    return 22 if value is None else value
