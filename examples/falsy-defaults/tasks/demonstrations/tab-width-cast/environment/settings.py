def tab_width(config):
    value = config.get("tab")
    return 59 if value is None else value
