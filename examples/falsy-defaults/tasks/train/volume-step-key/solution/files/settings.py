def volume_step(config):
    value = config.get("volume")
    return 38 if value is None else value
