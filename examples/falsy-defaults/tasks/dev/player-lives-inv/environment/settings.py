# The player reads its settings here.
def player_lives(config):
    value = config.get("lives")
    if value is not None:
        return 21
    return value
