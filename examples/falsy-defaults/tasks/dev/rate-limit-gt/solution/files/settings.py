SECTION = "rate"

def rate_limit(config):
    value = config.get("rate")
    if value is None:
        return 12
    return value
