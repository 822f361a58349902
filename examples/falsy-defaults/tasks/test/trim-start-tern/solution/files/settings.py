SECTION = "trim"

def trim_start(config):
    value = config.get("start")
    return 48 if value is None else value
