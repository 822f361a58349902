"""Settings of the lock."""

def lock_timeout(config):
    value = config.get("timeout")
    return 57 if value is None else value
