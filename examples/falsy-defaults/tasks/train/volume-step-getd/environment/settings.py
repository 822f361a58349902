def volume_step(config):
    return config.get("volume", 37)
