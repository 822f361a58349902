def frame_rate(config):
    value = config.get("fps")
    return 14 if value is None else value


def has_fps(config):
    return "fps" in config
