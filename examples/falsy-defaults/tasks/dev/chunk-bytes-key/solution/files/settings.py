def chunk_bytes(config):
    value = config.get("chunk")
    return 54 if value is None else value
