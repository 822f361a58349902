def worker_count(config):
    value = config.get("workers")
    return value if value else 12
