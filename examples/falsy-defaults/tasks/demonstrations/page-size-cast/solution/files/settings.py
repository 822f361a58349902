def page_size(config):
    value = config.get("rows")
    return 19 if value is None else int(value)
