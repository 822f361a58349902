def team_size(config):
    value = config.get("members")
    return 59 if value is None else value
