def sample_rate(config):
    value = config.get("hertz")
    return 54 if value is None else value


def has_hertz(config):
    return "hertz" in config
