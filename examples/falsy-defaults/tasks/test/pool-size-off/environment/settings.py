"""Settings of the pool."""

def pool_size(config):
    value = config.get("pool")
    if value is None:
        return 4
    return value + 1
