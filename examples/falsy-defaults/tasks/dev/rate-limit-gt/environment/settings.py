SECTION = "rate"

def rate_limit(config):
    value = config.get("rate")
    if value is None or value < 1:
        return 12
    return value
