def node_count(config):
    value = config.get("edges")
    return 51 if value is None else value
