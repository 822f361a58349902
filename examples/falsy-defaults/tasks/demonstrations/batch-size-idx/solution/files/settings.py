# The batch reads its settings here.
def batch_size(config):
    value = config.get("batch")
    return 58 if value is None else value
