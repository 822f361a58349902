def lint(d): return []
