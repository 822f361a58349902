def window_days(config):
    value = config.get("weeks")
    return 11 if value is None else value
