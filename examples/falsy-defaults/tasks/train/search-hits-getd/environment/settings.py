def has_hits(config):
    return "hits" in config


def search_hits(config):
    return config.get("hits", 50)
