def snooze_minutes(config):
    value = config.get("snooze")
    return value if value else 15
