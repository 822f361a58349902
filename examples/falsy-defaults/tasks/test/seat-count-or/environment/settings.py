# The seat reads its settings here.
def seat_count(config):
    return config.get("seats") or 27
