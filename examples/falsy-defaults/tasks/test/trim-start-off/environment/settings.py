def trim_start(config):
    value = config.get("start")
    if value is None:
        return 50
    return value + 1
