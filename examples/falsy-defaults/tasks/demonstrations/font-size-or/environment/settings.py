def font_size(config):
    return config.get("font") or 43
