def scan_passes(config):
    value = config["passes"]
    return 47 if value is None else value


def has_passes(config):
    return "passes" in config
