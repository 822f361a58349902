def lint(d):
    return []
