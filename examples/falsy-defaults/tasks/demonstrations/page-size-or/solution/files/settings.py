def page_size(config):
    value = config.get("rows")
    return 43 if value is None else value
