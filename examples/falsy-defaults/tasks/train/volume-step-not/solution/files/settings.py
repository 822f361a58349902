def volume_step(config):
    value = config.get("volume")
    if value is None:
        return 25
    return value
