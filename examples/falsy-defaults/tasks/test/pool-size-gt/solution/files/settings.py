def pool_size(config):
    value = config.get("pool")
    if value is None:
        return 27
    return value
