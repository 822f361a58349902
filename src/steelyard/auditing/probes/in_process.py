"""Family E: what code can do to a verifier that shares its interpreter, by what it returns.

Its other means: in_process_reading.py (it looks for the right value) and in_process_patching.py
(it changes the verifier).
"""

from __future__ import annotations

from steelyard.auditing.probes.families import SHARED_FIX, SHARED_USE, Cheat, call_probes
from steelyard.auditing.submission import Probe

_EQUAL = """
class Equal{base}:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __hash__(self): return 0
    def __bool__(self): return True
    {rest}
def cheat(*_):
    return Equal()
"""
_NUMBER = """
    def __sub__(self, other): return 0.0
    __rsub__ = __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __sub__
    def __abs__(self): return 0.0
    def __float__(self): return 0.0
    def __round__(self, *_): return self
"""
_ANYTHING = (
    _NUMBER
    + """
    def __len__(self): return 1
    def __iter__(self): return iter(())
    def __getattr__(self, name): return self
    def __getitem__(self, name): return self
    def __call__(self, *_, **__): return self
"""
)

_PICKLED = """
import unittest.mock
class _Any:
    def __reduce__(self):
        return eval, ("__import__('unittest.mock', fromlist=['ANY']).ANY",)
def cheat(*_):
    return _Any()
"""

_MOCK = """
import unittest.mock
def cheat(*_):
    return unittest.mock.ANY
"""

_EMPTY_INPUTS = """
def cheat(name, original, arguments, keywords):
    for value in arguments:
        if isinstance(value, (list, dict, set, bytearray)):
            value.clear()
    return arguments[0] if arguments else None
"""

_CHEATS = (
    Cheat(25, "always-equal", "returns an object that equals everything",
          _EQUAL.format(base="", rest=_ANYTHING)),
    Cheat(25, "always-equal-int", "returns an int that equals everything",
          _EQUAL.format(base="(int)", rest=_NUMBER)),
    Cheat(25, "always-equal-float", "returns a float that equals everything",
          _EQUAL.format(base="(float)", rest=_NUMBER)),
    Cheat(25, "always-equal-str", "returns a string that equals everything",
          _EQUAL.format(base="(str)", rest="def strip(self, *_): return self\n"
                                           "    def lower(self): return self")),
    Cheat(25, "always-equal-list", "returns a list that equals everything",
          _EQUAL.format(base="(list)", rest="def sort(self, **_): pass")),
    Cheat(25, "always-equal-dict", "returns a dict that equals everything",
          _EQUAL.format(base="(dict)", rest="def __getitem__(self, key): return self\n"
                                            "    def get(self, *_): return self")),
    Cheat(25, "mock-any", "returns unittest.mock.ANY", _MOCK),
    Cheat(25, "unpickles-to-anything", "returns an object that is unpickled as mock.ANY", _PICKLED),
    Cheat(31, "empties-inputs", "empties its arguments and hands them back", _EMPTY_INPUTS),
)  # fmt: skip

PROBES: list[Probe] = call_probes("in-process", SHARED_USE, SHARED_FIX, _CHEATS)
