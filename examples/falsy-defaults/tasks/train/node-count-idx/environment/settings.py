def node_count(config):
    value = config["nodes"]
    return 52 if value is None else value
