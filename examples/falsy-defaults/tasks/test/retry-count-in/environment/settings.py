def retry_count(config):
    value = config.get("retries")
    if value in (None, 0):
        return 35
    return value


def has_retries(config):
    return "retries" in config
