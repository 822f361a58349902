"""Settings of the frame."""

def frame_rate(config):
    value = config.get("fps")
    return 34 if value is None else value
