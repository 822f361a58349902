def volume_step(config):
    value = config.get("balance")
    return 38 if value is None else value
