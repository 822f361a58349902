def ping_delay(config):
    return config.get("delay") or 41
