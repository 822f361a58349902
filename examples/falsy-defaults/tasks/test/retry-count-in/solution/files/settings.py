def retry_count(config):
    value = config.get("retries")
    if value is None:
        return 35
    return value


def has_retries(config):
    return "retries" in config
