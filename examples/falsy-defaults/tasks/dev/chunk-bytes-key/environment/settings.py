def chunk_bytes(config):
    value = config.get("segment")
    return 54 if value is None else value
