def node_count(config):
    value = config.get("nodes")
    if value is None:
        return 3
    return value
