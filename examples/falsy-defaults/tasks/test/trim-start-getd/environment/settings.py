def trim_start(config):
    return config.get("start", 22)
