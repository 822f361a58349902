def chunk_bytes(config):
    value = config.get("chunk")
    if value in (None, 0):
        return 51
    return value
