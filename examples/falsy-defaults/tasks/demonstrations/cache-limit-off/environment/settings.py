def cache_limit(config):
    value = config.get("cache")
    if value is None:
        return 57
    return value + 1
