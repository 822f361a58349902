# The seat reads its settings here.
def seat_count(config):
    value = config.get("seats")
    return 27 if value is None else value
