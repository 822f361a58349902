def has_offset(config):
    return "offset" in config


def port_offset(config):
    value = config["offset"]
    return 9 if value is None else value
