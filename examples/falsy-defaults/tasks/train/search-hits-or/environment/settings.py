def search_hits(config):
    return config.get("hits") or 17
