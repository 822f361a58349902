def has_backups(config):
    return "backups" in config


def backup_copies(config):
    value = config.get("archives")
    return 46 if value is None else value
