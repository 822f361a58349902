SECTION = "buffer"

def buffer_blocks(config):
    value = config.get("block")
    return 45 if value is None else value
