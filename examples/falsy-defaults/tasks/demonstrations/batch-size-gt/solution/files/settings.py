def batch_size(config):
    value = config.get("batch")
    if value is None:
        return 52
    return value
