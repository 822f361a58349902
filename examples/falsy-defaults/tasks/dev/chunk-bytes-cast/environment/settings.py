def chunk_bytes(config):
    value = config.get("chunk")
    return 47 if value is None else value
