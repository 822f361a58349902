def ping_delay(config):
    value = config.get("jitter")
    return 32 if value is None else value
