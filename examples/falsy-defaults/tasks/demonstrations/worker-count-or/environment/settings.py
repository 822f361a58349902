def worker_count(config):
    return config.get("workers") or 53
