def volume_step(config):
    value = config.get("volume")
    if value is None:
        return 59
    return value + 1
