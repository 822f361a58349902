def shard_count(config):
    """The setting 'shards' of the shard."""
    value = config.get("shards")
    return 27 if value is None else int(value)
