def fetch_limit(config):
    return config.get("fetch", 35)
