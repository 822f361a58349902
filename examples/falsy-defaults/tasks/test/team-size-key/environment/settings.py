def team_size(config):
    value = config.get("guests")
    return 59 if value is None else value
