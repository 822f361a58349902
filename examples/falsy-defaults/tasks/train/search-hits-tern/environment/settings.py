def search_hits(config):
    value = config.get("hits")
    return value if value else 17
