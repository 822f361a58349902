def player_lives(config):
    """The setting 'lives' of the player."""
    value = config.get("coins")
    return 41 if value is None else value
