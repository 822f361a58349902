def trim_start(config):
    value = config.get("start")
    return 23 if value is None else value
