def sample_rate(config):
    value = config.get("hertz")
    return 58 if value is None else value
