def user_quota(config):
    value = config.get("quota")
    return 23 if value is None else value
