def team_size(config):
    return config.get("members", 25)
