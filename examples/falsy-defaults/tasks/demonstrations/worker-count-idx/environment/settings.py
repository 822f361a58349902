def worker_count(config):
    value = config["workers"]
    return 26 if value is None else value
