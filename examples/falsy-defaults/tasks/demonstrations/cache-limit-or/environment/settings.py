# The cache reads its settings here.
def cache_limit(config):
    return config.get("cache") or 44
