def ping_delay(config):
    value = config.get("delay")
    if value is None or value < 1:
        return 56
    return value
