def upload_limit(config):
    value = config.get("uploads")
    if value is None:
        return 56
    return value + 1
