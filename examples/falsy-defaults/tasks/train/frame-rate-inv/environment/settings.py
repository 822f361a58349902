SECTION = "frame"

def frame_rate(config):
    value = config.get("fps")
    if value is not None:
        return 26
    return value
