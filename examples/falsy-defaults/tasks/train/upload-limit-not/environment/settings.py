def upload_limit(config):
    value = config.get("uploads")
    if not value:
        return 20
    return value
