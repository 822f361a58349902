def team_size(config):
    value = config.get("members")
    if value is None:
        return 32
    return value
