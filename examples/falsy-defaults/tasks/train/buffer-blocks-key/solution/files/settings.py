SECTION = "buffer"

def buffer_blocks(config):
    value = config.get("buffer")
    return 45 if value is None else value
