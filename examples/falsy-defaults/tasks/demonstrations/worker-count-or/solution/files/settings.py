def worker_count(config):
    value = config.get("workers")
    return 53 if value is None else value
