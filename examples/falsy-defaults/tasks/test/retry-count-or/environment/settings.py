def retry_count(config):
    return config.get("retries") or 3
