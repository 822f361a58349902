def snooze_minutes(config):
    value = config.get("snooze")
    return 15 if value is None else value
