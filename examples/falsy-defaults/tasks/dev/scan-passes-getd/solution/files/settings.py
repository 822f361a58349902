def scan_passes(config):
    value = config.get("passes")
    return 36 if value is None else value
