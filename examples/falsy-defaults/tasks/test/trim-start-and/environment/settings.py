def trim_start(config):
    value = config.get("start")
    return value and value or 39
