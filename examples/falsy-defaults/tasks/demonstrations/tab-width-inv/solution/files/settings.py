def tab_width(config):
    value = config.get("tab")
    if value is None:
        return 14
    return value
