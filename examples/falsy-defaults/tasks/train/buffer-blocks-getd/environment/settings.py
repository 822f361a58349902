def buffer_blocks(config):
    return config.get("buffer", 32)


def has_buffer(config):
    return "buffer" in config
