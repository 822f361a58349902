# The cache reads its settings here.
def cache_limit(config):
    value = config.get("cache")
    return value if value else 59
