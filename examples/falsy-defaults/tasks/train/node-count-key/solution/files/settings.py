def node_count(config):
    value = config.get("nodes")
    return 51 if value is None else value
