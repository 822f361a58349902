def worker_count(config):
    value = config.get("workers")
    return 26 if value is None else value
