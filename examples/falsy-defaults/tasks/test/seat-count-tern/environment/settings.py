# The seat reads its settings here.
def seat_count(config):
    value = config.get("seats")
    return value if value else 16
