def node_count(config):
    value = config.get("nodes")
    if value is None:
        return 21
    return value
