def snooze_minutes(config):
    value = config.get("snooze")
    return value and value or 11
