SECTION = "worker"

def worker_count(config):
    return config.get("workers", 49)
