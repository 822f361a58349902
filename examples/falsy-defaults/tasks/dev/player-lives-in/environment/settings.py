def player_lives(config):
    value = config.get("lives")
    if value in (None, 0):
        return 61
    return value
