SECTION = "trim"

def trim_start(config):
    value = config.get("start")
    if value is None:
        return 43
    return value
