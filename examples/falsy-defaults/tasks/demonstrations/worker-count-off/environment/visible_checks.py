"""Tries worker_count on two inputs and prints one line for each."""

import sys

CHECKS = [
    ('zero', {'workers': 0}, 0),
    ('normal', {'workers': 22}, 22),
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
    from settings import worker_count
except Exception as error:
    print(f"settings.py: {type(error).__name__}: {error}")
    sys.exit(1)

verdicts = {name: verdict(worker_count, config, expected) for name, config, expected in CHECKS}
for name, text in verdicts.items():
    print(f"{name}: {text}")
sys.exit(any(text != "ok" for text in verdicts.values()))
