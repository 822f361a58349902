def menu_items(config):
    value = config.get("items")
    return 40 if value is None else value
