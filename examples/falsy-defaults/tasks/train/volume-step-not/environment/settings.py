def volume_step(config):
    value = config.get("volume")
    if not value:
        return 25
    return value
