def snooze_minutes(config):
    value = config.get("snooze")
    if value is None:
        return 41
    return value
