def has_fps(config):
    return "fps" in config


def frame_rate(config):
    value = config.get("fps")
    if value is None:
        return 50
    return value
