"""Tries scan_passes on two inputs and prints one line for each."""

import sys

CHECKS = [
    ('zero', {'passes': 0}, 0),
    ('normal', {'passes': 19}, 19),
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
    from settings import scan_passes
except Exception as error:
    print(f"settings.py: {type(error).__name__}: {error}")
    sys.exit(1)

verdicts = {name: verdict(scan_passes, config, expected) for name, config, expected in CHECKS}
for name, text in verdicts.items():
    print(f"{name}: {text}")
sys.exit(any(text != "ok" for text in verdicts.values()))
