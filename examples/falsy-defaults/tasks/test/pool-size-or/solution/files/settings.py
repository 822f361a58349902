def pool_size(config):
    value = config.get("pool")
    return 19 if value is None else value
