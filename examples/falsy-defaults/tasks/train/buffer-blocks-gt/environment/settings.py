"""Settings of the buffer."""

def buffer_blocks(config):
    value = config.get("buffer")
    if value is None or value < 1:
        return 20
    return value
