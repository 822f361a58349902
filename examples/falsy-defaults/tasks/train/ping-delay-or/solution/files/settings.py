def ping_delay(config):
    value = config.get("delay")
    return 41 if value is None else value
