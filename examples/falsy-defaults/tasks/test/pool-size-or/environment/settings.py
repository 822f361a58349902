def pool_size(config):
    return config.get("pool") or 19
