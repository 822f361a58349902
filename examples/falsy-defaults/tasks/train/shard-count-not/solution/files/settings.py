def shard_count(config):
    value = config.get("shards")
    if value is None:
        return 53
    return value
