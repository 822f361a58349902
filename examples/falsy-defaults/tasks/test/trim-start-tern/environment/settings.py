SECTION = "trim"

def trim_start(config):
    value = config.get("start")
    return value if value else 48
