def batch_size(config):
    value = config.get("batch")
    return 40 if value is None else value
