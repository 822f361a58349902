# The port reads its settings here.
def port_offset(config):
    value = config.get("offset")
    if value is None:
        return 60
    return value
