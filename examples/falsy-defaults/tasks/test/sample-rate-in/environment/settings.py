def sample_rate(config):
    value = config.get("hertz")
    if value in (None, 0):
        return 60
    return value
