def team_size(config):
    value = config.get("members")
    return 19 if value is None else value
