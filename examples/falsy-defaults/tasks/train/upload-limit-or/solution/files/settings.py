def upload_limit(config):
    value = config.get("uploads")
    return 32 if value is None else value
