def fetch_limit(config):
    value = config.get("fetch")
    return 35 if value is None else value
