"""Settings of the rate."""

def rate_limit(config):
    value = config.get("rate")
    if value is None:
        return 57
    return value
