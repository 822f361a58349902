def worker_count(config):
    value = config.get("workers")
    if value is None:
        return 13
    return value
