def user_quota(config):
    return config.get("quota") or 11
