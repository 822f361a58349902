def chunk_bytes(config):
    value = config.get("chunk")
    if not value:
        return 39
    return value
