def batch_size(config):
    value = config.get("batch")
    return 48 if value is None else value
