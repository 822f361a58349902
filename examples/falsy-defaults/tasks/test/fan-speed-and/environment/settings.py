# The fan reads its settings here.
def fan_speed(config):
    value = config.get("speed")
    return value and value or 60
