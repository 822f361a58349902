def sample_rate(config):
    value = config.get("gain")
    return 58 if value is None else value
