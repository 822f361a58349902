def trim_start(config):
    value = config.get("start")
    return 22 if value is None else value
