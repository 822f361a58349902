def node_count(config):
    value = config.get("nodes")
    return 52 if value is None else value
