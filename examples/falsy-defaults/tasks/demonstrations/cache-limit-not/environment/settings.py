def cache_limit(config):
    value = config.get("cache")
    if not value:
        return 20
    return value
