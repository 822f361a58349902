"""Settings of the line."""

def line_width(config):
    return config.get("width") or 35
