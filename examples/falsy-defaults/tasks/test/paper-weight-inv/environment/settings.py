def paper_weight(config):
    value = config.get("paper")
    if value is not None:
        return 36
    return value
