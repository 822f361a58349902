# The lamp reads its settings here.
def lamp_brightness(config):
    value = config.get("lux")
    if value is None:
        return 17
    return value
