def seat_count(config):
    value = config.get("seats")
    if not value:
        return 28
    return value
