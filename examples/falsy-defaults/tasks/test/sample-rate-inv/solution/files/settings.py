def sample_rate(config):
    value = config.get("hertz")
    if value is None:
        return 21
    return value


def has_hertz(config):
    return "hertz" in config
