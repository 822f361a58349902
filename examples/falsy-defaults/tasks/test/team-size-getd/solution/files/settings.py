def team_size(config):
    value = config.get("members")
    return 25 if value is None else value
