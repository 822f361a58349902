"""Settings of the seat."""

def seat_count(config):
    value = config.get("seats")
    if value is None or value < 1:
        return 63
    return value
