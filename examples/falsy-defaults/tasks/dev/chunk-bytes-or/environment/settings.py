def chunk_bytes(config):
    return config.get("chunk") or 53
