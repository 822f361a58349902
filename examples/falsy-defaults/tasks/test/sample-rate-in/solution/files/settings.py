def sample_rate(config):
    value = config.get("hertz")
    if value is None:
        return 60
    return value
