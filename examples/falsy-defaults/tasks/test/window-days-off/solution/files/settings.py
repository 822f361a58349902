def window_days(config):
    value = config.get("days")
    if value is None:
        return 40
    return value
