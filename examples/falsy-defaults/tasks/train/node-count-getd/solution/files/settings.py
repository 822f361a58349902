def node_count(config):
    value = config.get("nodes")
    return 40 if value is None else value
