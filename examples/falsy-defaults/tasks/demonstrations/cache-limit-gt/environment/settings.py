"""Settings of the cache."""

def cache_limit(config):
    value = config.get("cache")
    if value is None or value < 1:
        return 53
    return value
