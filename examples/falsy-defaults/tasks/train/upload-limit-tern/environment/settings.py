def upload_limit(config):
    value = config.get("uploads")
    return value if value else 18
