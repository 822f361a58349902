def seat_count(config):
    value = config.get("seats")
    if value is None:
        return 28
    return value
