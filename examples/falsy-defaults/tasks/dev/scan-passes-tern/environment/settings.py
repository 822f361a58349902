def scan_passes(config):
    value = config.get("passes")
    return value if value else 38
