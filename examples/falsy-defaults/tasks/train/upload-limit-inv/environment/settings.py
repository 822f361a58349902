def upload_limit(config):
    value = config.get("uploads")
    if value is not None:
        return 12
    return value
