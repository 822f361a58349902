def worker_count(config):
    value = config.get("workers")
    return 12 if value is None else value
