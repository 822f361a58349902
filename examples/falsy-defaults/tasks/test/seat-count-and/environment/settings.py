"""Settings of the seat."""

def seat_count(config):
    value = config.get("seats")
    return value and value or 42
