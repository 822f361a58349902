# The shard reads its settings here.
def shard_count(config):
    value = config.get("shards")
    if value is None:
        return 60
    return value
