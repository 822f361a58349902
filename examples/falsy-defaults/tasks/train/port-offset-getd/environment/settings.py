def port_offset(config):
    return config.get("offset", 43)
