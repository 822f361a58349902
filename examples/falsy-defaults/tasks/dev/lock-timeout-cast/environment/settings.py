def lock_timeout(config):
    """The setting 'timeout' of the lock."""
    value = config.get("timeout")
    return 27 if value is None else value
