def retry_count(config):
    """The setting 'retries' of the retry."""
    value = config.get("retries")
    return 18 if value is None else value
