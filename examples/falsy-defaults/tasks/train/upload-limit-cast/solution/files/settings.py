def upload_limit(config):
    value = config.get("uploads")
    return 42 if value is None else int(value)
