def ping_delay(config):
    value = config.get("delay")
    return 32 if value is None else value
