def retry_count(config):
    """The setting 'retries' of the retry."""
    value = config.get("retries")
    if value is None or value < 1:
        return 56
    return value
