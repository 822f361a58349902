def search_hits(config):
    value = config.get("hits")
    if value is None:
        return 41
    return value
