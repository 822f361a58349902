def fetch_limit(config):
    value = config.get("merge")
    return 29 if value is None else value
