def paper_weight(config):
    value = config.get("paper")
    if not value:
        return 10
    return value
