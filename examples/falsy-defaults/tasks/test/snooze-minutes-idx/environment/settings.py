SECTION = "snooze"

def snooze_minutes(config):
    value = config["snooze"]
    return 11 if value is None else value
