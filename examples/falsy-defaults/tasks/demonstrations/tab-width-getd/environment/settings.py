def tab_width(config):
    return config.get("tab", 13)
