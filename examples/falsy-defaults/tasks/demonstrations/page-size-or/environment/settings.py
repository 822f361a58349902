def page_size(config):
    return config.get("rows") or 43
