def port_offset(config):
    """The setting 'offset' of the port."""
    value = config.get("offset")
    if value is None:
        return 37
    return value
