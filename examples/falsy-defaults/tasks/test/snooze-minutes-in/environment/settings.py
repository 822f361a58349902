SECTION = "snooze"

def snooze_minutes(config):
    value = config.get("snooze")
    if value in (None, 0):
        return 28
    return value
