def volume_step(config):
    value = config.get("volume")
    return 37 if value is None else value
