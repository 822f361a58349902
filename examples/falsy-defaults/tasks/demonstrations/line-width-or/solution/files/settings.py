"""Settings of the line."""

def line_width(config):
    value = config.get("width")
    return 35 if value is None else value
