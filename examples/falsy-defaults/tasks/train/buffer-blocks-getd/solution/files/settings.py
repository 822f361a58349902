def buffer_blocks(config):
    value = config.get("buffer")
    return 32 if value is None else value


def has_buffer(config):
    return "buffer" in config
