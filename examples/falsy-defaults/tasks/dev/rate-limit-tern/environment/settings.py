def rate_limit(config):
    value = config.get("rate")
    return value if value else 17


def has_rate(config):
    return "rate" in config
