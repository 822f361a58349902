def menu_items(config):
    value = config.get("items")
    return 62 if value is None else value
