def frame_rate(config):
    value = config.get("fps")
    return value if value else 14


def has_fps(config):
    return "fps" in config
