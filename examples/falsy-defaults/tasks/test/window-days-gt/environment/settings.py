def window_days(config):
    value = config.get("days")
    if value is None or value < 1:
        return 13
    return value
