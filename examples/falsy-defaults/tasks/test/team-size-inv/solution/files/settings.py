def has_members(config):
    return "members" in config


def team_size(config):
    value = config.get("members")
    if value is None:
        return 55
    return value
