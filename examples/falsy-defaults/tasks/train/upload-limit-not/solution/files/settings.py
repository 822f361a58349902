def upload_limit(config):
    value = config.get("uploads")
    if value is None:
        return 20
    return value
