SECTION = "frame"

def frame_rate(config):
    value = config.get("fps")
    if value is None:
        return 26
    return value
