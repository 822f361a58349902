def window_days(config):
    value = config.get("days")
    return 11 if value is None else value
