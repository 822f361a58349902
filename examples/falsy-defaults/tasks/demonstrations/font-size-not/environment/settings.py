"""Settings of the font."""

def font_size(config):
    value = config.get("font")
    if not value:
        return 24
    return value
