def has_snooze(config):
    return "snooze" in config


def snooze_minutes(config):
    return config.get("snooze", 24)
