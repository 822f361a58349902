"""Settings of the buffer."""

def buffer_blocks(config):
    value = config.get("buffer")
    if value is None:
        return 20
    return value
