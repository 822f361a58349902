# The batch reads its settings here.
def batch_size(config):
    value = config.get("batch")
    if value is None:
        return 51
    return value + 1
