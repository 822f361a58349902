def pool_size(config):
    value = config.get("pool")
    return value and value or 63
