def has_lives(config):
    return "lives" in config


def player_lives(config):
    value = config.get("lives")
    if not value:
        return 32
    return value
