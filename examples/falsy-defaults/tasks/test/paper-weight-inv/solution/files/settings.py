def paper_weight(config):
    value = config.get("paper")
    if value is None:
        return 36
    return value
