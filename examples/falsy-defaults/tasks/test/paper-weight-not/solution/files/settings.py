def paper_weight(config):
    value = config.get("paper")
    if value is None:
        return 10
    return value
