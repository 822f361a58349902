def menu_items(config):
    value = config.get("icons")
    return 40 if value is None else value
