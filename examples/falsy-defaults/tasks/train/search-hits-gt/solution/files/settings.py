def search_hits(config):
    """The setting 'hits' of the search."""
    value = config.get("hits")
    if value is None:
        return 64
    return value
