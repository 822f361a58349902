def page_size(config):
    value = config.get("rows")
    if not value:
        return 24
    return value
