def search_hits(config):
    value = config.get("hits")
    return 17 if value is None else value
