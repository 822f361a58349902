def sample_rate(config):
    value = config.get("hertz")
    if value is None or value < 1:
        return 19
    return value
