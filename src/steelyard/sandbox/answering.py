"""The untrusted end of a program's channel: imports a module and answers calls of one function.

Runs in a forked child inside a sandbox, in the same interpreter as the graded code, so nothing it
says is believed: it may only return values. Standard library only.
"""

from __future__ import annotations

import os
import socket
import sys

from steelyard.sandbox.wire import UnsupportedValue, decode, encode, receive_frame, send_frame

TYPE_CHECKING = False
if TYPE_CHECKING:  # every module that is imported here delays every sandbox
    import types
    from typing import Any

_MAX_REQUEST_BYTES = 64 << 20


def answer_calls(channel: socket.socket, root: str, module: str, function: str) -> None:
    """Imports `module` (a file below `root`), says so, then answers until the channel closes."""
    try:
        target = getattr(_load(root, module), function)
        send_frame(channel, ["returned", None])
    except BaseException as error:  # SystemExit and KeyboardInterrupt are the program's failure too
        send_frame(channel, _describe(error))
        return
    while True:
        try:
            request, _ = receive_frame(channel, _MAX_REQUEST_BYTES)
        except (EOFError, OSError):
            return
        send_frame(channel, _answer(target, request))


def _answer(target: Any, request: Any) -> Any:
    try:
        value = target(*decode(request["args"]), **decode(request["kwargs"]))
        return ["returned", encode(value)]
    except UnsupportedValue as error:
        return ["unreadable", error.type_name]
    except BaseException as error:
        return _describe(error)


def _describe(error: BaseException) -> list[str]:
    try:
        text = str(error)
    except BaseException:  # an exception's own __str__ is the program's code
        text = ""
    return ["raised", type(error).__name__, text]


def _load(root: str, module: str) -> types.ModuleType:
    """Executes the module's source. Never its cached bytecode, which could be something else."""
    sys.path.insert(0, root)
    path = os.path.join(root, module)
    name = module[:-3].replace("/", ".")
    package = name.rpartition(".")[0]
    if package:
        __import__(package)
    with open(path, "rb") as file:
        source = file.read()
    loaded = type(sys)(name)
    loaded.__file__ = path
    loaded.__package__ = package
    sys.modules[name] = loaded
    exec(compile(source, path, "exec"), loaded.__dict__)
    return loaded
