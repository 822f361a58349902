def paper_weight(config):
    value = config.get("paper")
    if value in (None, 0):
        return 64
    return value
