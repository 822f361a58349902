def pool_size(config):
    value = config.get("pool")
    if value is None or value < 1:
        return 27
    return value
