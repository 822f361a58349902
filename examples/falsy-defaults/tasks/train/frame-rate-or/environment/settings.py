"""Settings of the frame."""

def frame_rate(config):
    return config.get("fps") or 27
