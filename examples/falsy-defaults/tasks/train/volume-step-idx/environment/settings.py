def volume_step(config):
    value = config["volume"]
    return 60 if value is None else value
