SECTION = "worker"

def worker_count(config):
    value = config.get("workers")
    return 49 if value is None else value
