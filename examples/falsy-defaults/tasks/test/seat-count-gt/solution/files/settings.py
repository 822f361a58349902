"""Settings of the seat."""

def seat_count(config):
    value = config.get("seats")
    if value is None:
        return 63
    return value
