def team_size(config):
    value = config["members"]
    return 19 if value is None else value
