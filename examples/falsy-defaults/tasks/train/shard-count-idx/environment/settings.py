def shard_count(config):
    value = config["shards"]
    return 20 if value is None else value
