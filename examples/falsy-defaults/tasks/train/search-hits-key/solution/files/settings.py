# The search reads its settings here.
def search_hits(config):
    value = config.get("hits")
    return 56 if value is None else value
