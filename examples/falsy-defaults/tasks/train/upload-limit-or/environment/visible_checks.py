"""Tries upload_limit on two inputs and prints one line for each."""

import sys

CHECKS = [
    ('zero', {'uploads': 0}, 0),
    ('normal', {'uploads': 36}, 36),
]


def verdict(function, config, expected):
    try:
        got = function(config)
    except Exception as error:
        got = error
    if type(got) is type(expected) and got == expected:
        return "ok"
    return f"expected {expected!r}, got {got!r}"


try:
    from settings import upload_limit
except Exception as error:
    print(f"settings.py: {type(error).__name__}: {error}")
    sys.exit(1)

verdicts = {name: verdict(upload_limit, config, expected) for name, config, expected in CHECKS}
for name, text in verdicts.items():
    print(f"{name}: {text}")
sys.exit(any(text != "ok" for text in verdicts.values()))
