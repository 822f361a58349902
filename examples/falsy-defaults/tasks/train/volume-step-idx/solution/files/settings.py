def volume_step(config):
    value = config.get("volume")
    return 60 if value is None else value
