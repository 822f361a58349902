def scan_passes(config):
    value = config.get("passes")
    return 38 if value is None else value
