def rate_limit(config):
    value = config.get("rate")
    return 17 if value is None else value


def has_rate(config):
    return "rate" in config
