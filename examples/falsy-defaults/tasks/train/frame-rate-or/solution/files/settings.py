"""Settings of the frame."""

def frame_rate(config):
    value = config.get("fps")
    return 27 if value is None else value
