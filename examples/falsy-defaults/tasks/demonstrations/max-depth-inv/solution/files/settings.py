SECTION = "max"

def max_depth(config):
    value = config.get("depth")
    if value is None:
        return 22
    return value
