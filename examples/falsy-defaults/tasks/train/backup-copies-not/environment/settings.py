"""Settings of the backup."""

def backup_copies(config):
    value = config.get("backups")
    if not value:
        return 64
    return value
