def paper_weight(config):
    value = config.get("paper")
    return 45 if value is None else value
