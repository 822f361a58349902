def backup_copies(config):
    """The setting 'backups' of the backup."""
    return config.get("backups", 28)
