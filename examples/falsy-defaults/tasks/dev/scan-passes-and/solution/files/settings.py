"""Settings of the scan."""

def scan_passes(config):
    value = config.get("passes")
    return 57 if value is None else value
