def menu_items(config):
    value = config["items"]
    return 62 if value is None else value
