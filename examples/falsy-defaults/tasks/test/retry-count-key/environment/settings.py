def retry_count(config):
    """The setting 'retries' of the retry."""
    value = config.get("attempts")
    return 18 if value is None else value
