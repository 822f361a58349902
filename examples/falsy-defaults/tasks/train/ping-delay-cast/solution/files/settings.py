def ping_delay(config):
    value = config.get("delay")
    return 61 if value is None else int(value)
