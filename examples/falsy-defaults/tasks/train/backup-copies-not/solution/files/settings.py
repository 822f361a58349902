"""Settings of the backup."""

def backup_copies(config):
    value = config.get("backups")
    if value is None:
        return 64
    return value
