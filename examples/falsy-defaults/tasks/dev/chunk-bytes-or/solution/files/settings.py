def chunk_bytes(config):
    value = config.get("chunk")
    return 53 if value is None else value
