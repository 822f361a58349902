def ping_delay(config):
    value = config.get("delay")
    return 44 if value is None else value
