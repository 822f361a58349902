"""Tries door_code on two inputs and prints one line for each."""

import sys

CHECKS = [
    ('zero', {'code': 0}, 0),
    ('normal', {'code': 58}, 58),
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
    from settings import door_code
except Exception as error:
    print(f"settings.py: {type(error).__name__}: {error}")
    sys.exit(1)

verdicts = {name: verdict(door_code, config, expected) for name, config, expected in CHECKS}
for name, text in verdicts.items():
    print(f"{name}: {text}")
sys.exit(any(text != "ok" for text in verdicts.values()))
