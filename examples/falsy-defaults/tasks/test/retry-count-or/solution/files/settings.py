def retry_count(config):
    value = config.get("retries")
    return 3 if value is None else value
