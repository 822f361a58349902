def retry_count(config):
    value = config.get("retries")
    return 27 if value is None else value
