def has_snooze(config):
    return "snooze" in config


def snooze_minutes(config):
    value = config.get("snooze")
    return 24 if value is None else value
