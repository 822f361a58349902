def buffer_blocks(config):
    value = config.get("buffer")
    return 52 if value is None else value
