def buffer_blocks(config):
    value = config["buffer"]
    return 52 if value is None else value
