def user_quota(config):
    value = config.get("quota")
    return 63 if value is None else value
