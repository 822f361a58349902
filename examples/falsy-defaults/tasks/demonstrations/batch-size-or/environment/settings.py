def batch_size(config):
    return config.get("batch") or 48
