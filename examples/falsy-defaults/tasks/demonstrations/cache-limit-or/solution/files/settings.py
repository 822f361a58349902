# The cache reads its settings here.
def cache_limit(config):
    value = config.get("cache")
    return 44 if value is None else value
