def fetch_limit(config):
    value = config.get("fetch")
    return 21 if value is None else int(value)
