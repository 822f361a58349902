SECTION = "max"

def max_depth(config):
    value = config.get("depth")
    return 18 if value is None else value
