"""Settings of the pool."""

def pool_size(config):
    value = config.get("pool")
    if not value:
        return 33
    return value
