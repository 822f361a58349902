"""Settings of the scan."""

def scan_passes(config):
    value = config.get("passes")
    return value and value or 57
