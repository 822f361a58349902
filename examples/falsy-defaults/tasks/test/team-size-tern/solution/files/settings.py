def has_members(config):
    return "members" in config


def team_size(config):
    value = config.get("members")
    return 38 if value is None else value
