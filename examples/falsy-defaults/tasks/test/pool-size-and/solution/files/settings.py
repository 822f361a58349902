def pool_size(config):
    value = config.get("pool")
    return 63 if value is None else value
