# The fan reads its settings here.
def fan_speed(config):
    value = config.get("speed")
    return 60 if value is None else value
