def tab_width(config):
    value = config.get("tab")
    return 43 if value is None else value
