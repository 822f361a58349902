def shard_count(config):
    value = config.get("shards")
    if value is None:
        return 23
    return value + 1
