# The lamp reads its settings here.
def lamp_brightness(config):
    value = config.get("lux")
    return 27 if value is None else value
