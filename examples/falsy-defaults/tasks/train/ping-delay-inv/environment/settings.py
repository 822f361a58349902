def ping_delay(config):
    value = config.get("delay")
    if value is not None:
        return 49
    return value
