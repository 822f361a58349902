def upload_limit(config):
    return config.get("uploads") or 32
