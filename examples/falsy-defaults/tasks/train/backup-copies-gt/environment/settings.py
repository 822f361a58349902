# The backup reads its settings here.
def backup_copies(config):
    value = config.get("backups")
    if value is None or value < 1:
        return 18
    return value
