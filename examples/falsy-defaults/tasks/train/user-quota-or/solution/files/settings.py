def user_quota(config):
    value = config.get("quota")
    return 11 if value is None else value
