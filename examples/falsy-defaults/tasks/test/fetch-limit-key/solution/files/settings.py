def fetch_limit(config):
    value = config.get("fetch")
    return 29 if value is None else value
