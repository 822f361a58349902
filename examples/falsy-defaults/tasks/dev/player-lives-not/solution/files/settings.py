def has_lives(config):
    return "lives" in config


def player_lives(config):
    value = config.get("lives")
    if value is None:
        return 32
    return value
