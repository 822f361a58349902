def tab_width(config):
    value = config.get("space")
    return 43 if value is None else value
