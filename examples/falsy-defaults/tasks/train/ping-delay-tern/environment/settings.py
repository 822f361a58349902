def ping_delay(config):
    value = config.get("delay")
    return value if value else 44
