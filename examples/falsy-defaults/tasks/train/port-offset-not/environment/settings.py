# The port reads its settings here.
def port_offset(config):
    value = config.get("offset")
    if not value:
        return 60
    return value
