def node_count(config):
    value = config.get("nodes")
    if value is None or value < 1:
        return 3
    return value
