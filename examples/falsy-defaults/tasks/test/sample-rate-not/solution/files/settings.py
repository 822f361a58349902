def sample_rate(config):
    """The setting 'hertz' of the sample."""
    value = config.get("hertz")
    if value is None:
        return 14
    return value
