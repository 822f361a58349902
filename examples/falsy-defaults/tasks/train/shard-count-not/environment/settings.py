def shard_count(config):
    value = config.get("shards")
    if not value:
        return 53
    return value
