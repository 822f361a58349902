def backup_copies(config):
    value = config.get("backups")
    if value is None:
        return 30
    return value


def has_backups(config):
    return "backups" in config
