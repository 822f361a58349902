def node_count(config):
    return config.get("nodes", 40)
