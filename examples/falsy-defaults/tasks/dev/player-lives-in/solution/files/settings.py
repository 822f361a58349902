def player_lives(config):
    value = config.get("lives")
    if value is None:
        return 61
    return value
