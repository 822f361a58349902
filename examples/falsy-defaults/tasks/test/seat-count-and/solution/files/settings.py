"""Settings of the seat."""

def seat_count(config):
    value = config.get("seats")
    return 42 if value is None else value
