"""The system call filter, installed on a process that has nothing else around it."""

from __future__ import annotations

import json
import platform
import struct
import subprocess
import sys

import pytest

from steelyard.sandbox.seccomp import seccomp_filter

PROGRAM = """
import ctypes, errno, json, os, subprocess, sys, threading
from steelyard.sandbox.seccomp import seccomp_filter
from steelyard.sandbox.supervisor import _filter_system_calls
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"x86_64": (56, 272, 308), "aarch64": (220, 97, 268)}
clone, unshare, setns = NUMBERS[os.uname().machine]

def call(*arguments):
    done = libc.syscall(*map(ctypes.c_long, arguments))
    if done == 0:  # a child of clone
        os._exit(0)
    return errno.errorcode[ctypes.get_errno()] if done < 0 else "done"

SIGCHLD, NEWUSER, NEWNS, NEWNET = 17, 0x10000000, 0x20000, 0x40000000
tried = {
    "clone": (clone, SIGCHLD, 0, 0, 0, 0),
    "clone user": (clone, SIGCHLD | NEWUSER, 0, 0, 0, 0),
    "clone mount": (clone, SIGCHLD | NEWNS, 0, 0, 0, 0),
    "clone net": (clone, SIGCHLD | NEWNET, 0, 0, 0, 0),
    "unshare": (unshare, 0x7FFFFFFF),
    "setns": (setns, -1, 0),
    "clone3": (435, 0, 0),
}
if "filtered" in sys.argv:
    _filter_system_calls(seccomp_filter())
said = {name: call(*arguments) for name, arguments in tried.items()}
thread = threading.Thread(target=lambda: said.update(thread="ran"))
thread.start()
thread.join()
said["child"] = subprocess.run(["true"]).returncode
print(json.dumps(said))
"""


def said(*arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(seccomp_filter() is None, reason="the filter does not know this architecture")
def test_namespaces_cannot_be_made_and_processes_and_threads_can() -> None:
    free = said()
    assert (free["setns"], free["clone3"], free["unshare"]) == ("EBADF", "EINVAL", "EINVAL")
    assert said("filtered") == {
        "clone": "done",
        **dict.fromkeys(("clone user", "clone mount", "clone net", "unshare", "setns"), "EPERM"),
        "clone3": "ENOSYS",
        "thread": "ran",
        "child": 0,
    }


def verdict(program: bytes, architecture: int, number: int, first: int = 0) -> int:
    """What the kernel's machine makes of a system call: the filter, interpreted."""
    lines = list(struct.iter_unpack("=HBBI", program))
    data = {0: number, 4: architecture, 16: first}
    at, loaded = 0, 0
    while True:
        code, yes, no, value = lines[at]
        at += 1
        if code == 0x20:
            loaded = data[value]
        elif code == 0x06:
            return int(value)
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}
            at += yes if holds[code] else no


ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026


@pytest.mark.parametrize(
    ("machine", "architecture", "numbers"),
    [
        ("x86_64", 0xC000003E,
         {"read": 0, "ptrace": 101, "setns": 308, "prlimit": 302, "clone": 56}),
        ("aarch64", 0xC00000B7,
         {"read": 63, "ptrace": 117, "setns": 268, "prlimit": 261, "clone": 220}),
    ],
)  # fmt: skip
def test_each_architecture_has_its_numbers(
    machine: str, architecture: int, numbers: dict[str, int]
) -> None:
    program = seccomp_filter(machine)
    assert program is not None

    def of(name: str, first: int = 0) -> int:
        return verdict(program, architecture, numbers[name], first)

    assert (of("read"), of("ptrace"), of("setns")) == (ALLOW, EPERM, EPERM)
    assert (of("prlimit"), of("prlimit", 7)) == (ALLOW, EPERM)
    assert (of("clone", 17), of("clone", 0x003D0F00)) == (ALLOW, ALLOW)  # a fork, a thread
    for bit in (0x20000, *(1 << n for n in range(25, 31))):
        assert of("clone", 17 | bit) == EPERM
    assert verdict(program, architecture, 435) == ENOSYS
    assert verdict(program, architecture, 0x40000000) == EPERM
    assert verdict(program, architecture ^ 1, numbers["read"]) == EPERM


def test_an_unknown_architecture_has_no_filter() -> None:
    assert seccomp_filter("vax") is None
    assert (seccomp_filter() is None) == (platform.machine() not in ("x86_64", "aarch64"))
