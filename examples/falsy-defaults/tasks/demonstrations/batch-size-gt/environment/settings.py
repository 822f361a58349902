def batch_size(config):
    value = config.get("batch")
    if value is None or value < 1:
        return 52
    return value
