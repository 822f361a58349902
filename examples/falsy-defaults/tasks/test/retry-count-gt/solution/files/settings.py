def retry_count(config):
    """The setting 'retries' of the retry."""
    value = config.get("retries")
    if value is None:
        return 56
    return value
