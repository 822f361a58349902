"""Settings of the font."""

def font_size(config):
    value = config.get("font")
    if value is None:
        return 52
    return value + 1
