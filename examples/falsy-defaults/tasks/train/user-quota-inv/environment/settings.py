def user_quota(config):
    value = config.get("quota")
    if value is not None:
        return 17
    return value
