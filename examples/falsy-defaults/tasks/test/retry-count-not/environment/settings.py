def retry_count(config):
    value = config.get("retries")
    if not value:
        return 37
    return value
