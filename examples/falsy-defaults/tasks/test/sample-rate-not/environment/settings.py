def sample_rate(config):
    """The setting 'hertz' of the sample."""
    value = config.get("hertz")
    if not value:
        return 14
    return value
