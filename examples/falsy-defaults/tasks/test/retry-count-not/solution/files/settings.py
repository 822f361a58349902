def retry_count(config):
    value = config.get("retries")
    if value is None:
        return 37
    return value
