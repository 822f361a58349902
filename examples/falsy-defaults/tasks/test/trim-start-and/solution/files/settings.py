def trim_start(config):
    value = config.get("start")
    return 39 if value is None else value
