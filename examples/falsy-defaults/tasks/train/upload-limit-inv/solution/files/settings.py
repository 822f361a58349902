def upload_limit(config):
    value = config.get("uploads")
    if value is None:
        return 12
    return value
