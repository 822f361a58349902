def batch_size(config):
    value = config.get("batch")
    return value if value else 40
