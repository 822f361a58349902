def backup_copies(config):
    """The setting 'backups' of the backup."""
    value = config.get("backups")
    return 28 if value is None else value
