def paper_weight(config):
    value = config.get("paper")
    return 59 if value is None else value


def has_paper(config):
    return "paper" in config
