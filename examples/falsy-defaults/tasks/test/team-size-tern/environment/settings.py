def has_members(config):
    return "members" in config


def team_size(config):
    value = config.get("members")
    return value if value else 38
