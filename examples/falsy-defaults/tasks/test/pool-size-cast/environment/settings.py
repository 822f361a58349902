def pool_size(config):
    value = config.get("pool")
    return 62 if value is None else value
