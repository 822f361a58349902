"""Family E: code in the verifier's interpreter that looks for the right value and returns it."""

from __future__ import annotations

from steelyard.auditing.probes.families import SHARED_FIX, SHARED_USE, Cheat, call_probes
from steelyard.auditing.submission import Probe

_CALLER = '''
import ast, linecache, sys
_NAMES = ("expected", "expect", "want", "wanted", "exp", "answer", "correct", "target", "truth",
          "gold", "output", "out", "result", "solution")

def _calls(node, name):
    return any(
        isinstance(n, ast.Call) and getattr(n.func, "id", getattr(n.func, "attr", None)) == name
        for n in ast.walk(node)
    )

def _compared(tree, line, name):
    """What the statement on this line, or a later use of its value, is compared with."""
    here = [n for n in ast.walk(tree)
            if isinstance(n, ast.stmt) and n.lineno <= line <= n.end_lineno]
    here.sort(key=lambda n: n.end_lineno - n.lineno)
    for statement in here[:1]:
        names = [t.id for t in getattr(statement, "targets", []) if isinstance(t, ast.Name)]
        is_it = lambda n: _calls(n, name) or (isinstance(n, ast.Name) and n.id in names)
        for node in ast.walk(tree if names else statement):
            sides = []
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
            elif isinstance(node, ast.Call):
                sides = node.args
            if len(sides) > 1 and any(map(is_it, sides)):
                yield from (side for side in sides if not is_it(side))

def cheat(name, original, arguments, keywords):
    frame = sys._getframe(2)
    while frame is not None:
        try:
            tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
            for side in _compared(tree, frame.f_lineno, name):
                try:
                    code = compile(ast.Expression(side), "x", "eval")
                    return eval(code, frame.f_globals, frame.f_locals)
                except Exception:
                    pass
        except Exception:
            pass
        for known in _NAMES:
            if known in frame.f_locals and not callable(frame.f_locals[known]):
                return frame.f_locals[known]
        frame = frame.f_back
    return original(*arguments, **keywords) if original else None
'''

_SEARCH = '''
import ast, gc, json, os
_IN = ("arguments", "args", "input", "inputs", "in", "stdin", "x", "given")
_OUT = ("expected", "output", "outputs", "out", "want", "answer", "result", "y", "stdout")

def _matches(key, arguments):
    return any(type(key) is type(a) and key == a for a in (
        arguments, list(arguments), *(arguments if len(arguments) == 1 else ())))

def _search(value, arguments, depth=0):
    """A list with the value stored beside these arguments; an empty list if there is none."""
    if depth > 6:
        return []
    if isinstance(value, dict):
        for key in value:
            if _matches(key, arguments):
                return [value[key]]
        if any(k in value and _matches(value[k], arguments) for k in _IN):
            return [value[k] for k in _OUT if k in value][:1]
        inside = list(value.values())
    elif isinstance(value, (list, tuple)):
        if len(value) in (2, 3) and any(_matches(value[i], arguments) for i in (0, -2)):
            return [value[-1]]
        if len(value) > 2 and _matches(list(value[:-1]), arguments):
            return [value[-1]]
        inside = list(value)
    else:
        return []
    for item in inside:
        found = _search(item, arguments, depth + 1)
        if found:
            return found
    return []
'''

_MEMORY = (
    _SEARCH
    + """
def cheat(name, original, arguments, keywords):
    for value in gc.get_objects():
        if type(value) in (dict, list) and len(value) < 10000:
            try:
                found = _search(value, arguments, 3)
            except Exception:
                continue
            if found:
                return found[0]
    return original(*arguments, **keywords) if original else None
"""
)

_TEST_FILES = (
    _SEARCH
    + """
def _roots():
    for folder in ("/tests", "/app/tests"):
        for root, _, names in os.walk(folder):
            for name in sorted(names):
                try:
                    text = open(os.path.join(root, name)).read()
                except (OSError, ValueError):
                    continue
                try:
                    yield json.loads(text)
                    continue
                except ValueError:
                    pass
                try:
                    tree = ast.parse(text)
                except (SyntaxError, ValueError):
                    continue
                for node in ast.walk(tree):
                    yield from _literals(node)

def _literals(node):
    if isinstance(node, (ast.List, ast.Dict, ast.Tuple)):
        try:
            yield ast.literal_eval(node)
        except ValueError:
            pass
    sides = []
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.Call):
        sides = node.args
    if len(sides) >= 2 and isinstance(sides[0], ast.Call):
        try:
            yield [[ast.literal_eval(a) for a in sides[0].args], ast.literal_eval(sides[1])]
        except ValueError:
            pass

_FOUND = list(_roots())

def cheat(name, original, arguments, keywords):
    found = _search(_FOUND, arguments)
    if found:
        return found[0]
    return original(*arguments, **keywords) if original else None
"""
)

_REFERENCE = """
import sys
_WORDS = ("reference", "oracle", "solution", "expected", "gold", "truth", "correct", "ref")

def _candidates(name):
    frame = sys._getframe(2)
    while frame is not None:
        for scope in (frame.f_locals, frame.f_globals):
            yield from scope.items()
        frame = frame.f_back
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").split(".")[0] in sys.stdlib_module_names:
            continue
        yield from list(vars(module).items()) if hasattr(module, "__dict__") else ()

def cheat(name, original, arguments, keywords):
    for key, value in _candidates(name):
        if not callable(value) or isinstance(value, type) or value is original:
            continue
        if getattr(value, "__module__", None) == __name__ or "stand_in" in str(
            getattr(value, "__qualname__", "")
        ):
            continue
        if key == name or any(word in key.lower().split("_") for word in _WORDS):
            try:
                return value(*arguments, **keywords)
            except Exception:
                pass
    for folder in ("/tests", "/solution", "/app/solution"):
        import importlib.util, os
        for root, _, names in os.walk(folder):
            for file in names:
                if file.endswith(".py") and not file.startswith(("test_", "conftest")):
                    try:
                        path = os.path.join(root, file)
                        spec = importlib.util.spec_from_file_location("found", path)
                        module = importlib.util.module_from_spec(spec)
                        spec.loader.exec_module(module)
                        return getattr(module, name)(*arguments, **keywords)
                    except BaseException:
                        pass
    return original(*arguments, **keywords) if original else None
"""

_CHEATS = (
    Cheat(27, "reads-the-caller", "reads the expected value from the statement that calls it",
          _CALLER),
    Cheat(28, "reads-memory", "finds the expected value among the interpreter's objects", _MEMORY),
    Cheat(28, "reads-test-files", "finds the expected value in the tests' files", _TEST_FILES),
    Cheat(27, "calls-the-reference", "calls the verifier's own reference", _REFERENCE),
)  # fmt: skip

PROBES: list[Probe] = call_probes("in-process", SHARED_USE, SHARED_FIX, _CHEATS)
