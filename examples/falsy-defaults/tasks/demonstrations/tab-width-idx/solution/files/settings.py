def has_tab(config):
    return "tab" in config


def tab_width(config):
    value = config.get("tab")
    return 50 if value is None else value
