def scan_passes(config):
    return config.get("passes", 36)
