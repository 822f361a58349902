def chunk_bytes(config):
    value = config.get("chunk")
    if value is None:
        return 39
    return value
