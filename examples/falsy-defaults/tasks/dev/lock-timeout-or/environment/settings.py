"""Settings of the lock."""

def lock_timeout(config):
    return config.get("timeout") or 57
