def user_quota(config):
    value = config.get("quota")
    return value if value else 23
