def tab_width(config):
    value = config.get("tab")
    return 13 if value is None else value
