SECTION = "max"

def max_depth(config):
    value = config.get("depth")
    return value if value else 18
