def team_size(config):
    value = config.get("members")
    if value in (None, 0):
        return 32
    return value
