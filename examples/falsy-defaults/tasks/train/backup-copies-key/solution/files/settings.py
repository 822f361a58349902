def has_backups(config):
    return "backups" in config


def backup_copies(config):
    value = config.get("backups")
    return 46 if value is None else value
