def has_fps(config):
    return "fps" in config


def frame_rate(config):
    value = config.get("fps")
    if not value:
        return 50
    return value
