def window_days(config):
    value = config.get("days")
    if not value:
        return 27
    return value
