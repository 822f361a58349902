def has_fetch(config):
    return "fetch" in config


def fetch_limit(config):
    value = config["fetch"]
    return 34 if value is None else value
