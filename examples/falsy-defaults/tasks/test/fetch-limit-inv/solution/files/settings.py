def fetch_limit(config):
    value = config.get("fetch")
    if value is None:
        return 47
    return value
