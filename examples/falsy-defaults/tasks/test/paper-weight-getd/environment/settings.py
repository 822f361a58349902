def paper_weight(config):
    return config.get("paper", 27)


def has_paper(config):
    return "paper" in config
