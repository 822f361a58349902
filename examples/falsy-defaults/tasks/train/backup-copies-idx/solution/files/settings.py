SECTION = "backup"

def backup_copies(config):
    value = config.get("backups")
    return 14 if value is None else value
