def has_fetch(config):
    return "fetch" in config


def fetch_limit(config):
    value = config.get("fetch")
    if value in (None, 0):
        return 42
    return value
