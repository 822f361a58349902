def page_size(config):
    value = config.get("rows")
    if value is None:
        return 24
    return value
