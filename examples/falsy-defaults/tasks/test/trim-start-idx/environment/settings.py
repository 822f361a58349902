def trim_start(config):
    value = config["start"]
    return 23 if value is None else value
