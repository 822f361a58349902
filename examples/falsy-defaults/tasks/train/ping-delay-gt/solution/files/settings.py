def ping_delay(config):
    value = config.get("delay")
    if value is None:
        return 56
    return value
