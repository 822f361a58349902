def port_offset(config):
    value = config.get("offset")
    return 43 if value is None else value
