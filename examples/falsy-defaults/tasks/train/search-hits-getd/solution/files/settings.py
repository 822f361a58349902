def has_hits(config):
    return "hits" in config


def search_hits(config):
    value = config.get("hits")
    return 50 if value is None else value
