def shard_count(config):
    value = config.get("shards")
    return 20 if value is None else value
