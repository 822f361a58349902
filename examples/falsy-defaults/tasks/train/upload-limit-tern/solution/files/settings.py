def upload_limit(config):
    value = config.get("uploads")
    return 18 if value is None else value
