"""System calls that no sandbox needs and that would reach past it.

The namespaces do the isolating; this filter closes what they leave open between processes of one
uid (tracing, and lowering another process's limits), state that outlives a process (keyrings,
System V and POSIX message queues), through which one graded program could speak to the next, and
new namespaces, in whose user namespace a program would have every capability and with it far more
of the kernel to attack: bubblewrap forbids them itself, a container engine may not.
"""

from __future__ import annotations

import errno
import platform
import struct

_ALLOW = 0x7FFF0000
_DENY = 0x00050000 | errno.EPERM
_LACKS = 0x00050000 | errno.ENOSYS
_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_OFFSET_NR, _OFFSET_ARCH, _OFFSET_FIRST_ARGUMENT = 0, 4, 16
_X32 = 0x40000000  # x86-64 system calls under other numbers
# cgroup, uts, ipc, user, pid and net namespaces, and the mount namespace
_NEW_NAMESPACES = 0x7E020000
_CLONE3 = 435  # on every architecture

# The order is that of _DENIED_NAMES; the numbers are those of each architecture's ABI.
_DENIED_NAMES = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"),
    *("add_key", "request_key", "keyctl", "shmget", "semget", "msgget", "mq_open"),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup"),
    *("unshare", "setns"),
)
_NUMBERS: dict[str, tuple[int, tuple[int, ...], int, int]] = {
    # machine: (audit architecture, the denied calls, prlimit64, clone)
    "x86_64": (
        0xC000003E,
        (101, 310, 311, 438, 248, 249, 250, 29, 64, 68, 240, 321, 298, 323, 425, 272, 308),
        302,
        56,
    ),
    "aarch64": (
        0xC00000B7,
        (117, 270, 271, 438, 217, 218, 219, 194, 190, 186, 180, 280, 241, 282, 425, 97, 268),
        261,
        220,
    ),
}


def seccomp_filter(machine: str | None = None) -> bytes | None:
    """The filter as classic BPF, an array of `struct sock_filter`; denied calls give EPERM.

    `prlimit64` is allowed only on the caller itself, `clone` only without new namespaces. `clone3`,
    whose flags a filter cannot see, gives ENOSYS: C libraries then use `clone`. None for an
    architecture whose system call numbers are not listed here: the sandbox then does without.
    """
    known = _NUMBERS.get(machine or platform.machine())
    if known is None:
        return None
    architecture, denied, prlimit64, clone = known
    assert len(denied) == len(_DENIED_NAMES)
    # (code, value, where to go on if it holds, and if not); an empty place is the next line.
    lines = [
        (_LOAD, _OFFSET_ARCH, "", ""),
        (_JUMP_EQ, architecture, "", "deny"),
        (_LOAD, _OFFSET_NR, "", ""),
        (_JUMP_GE, _X32, "deny", ""),
        *((_JUMP_EQ, number, "deny", "") for number in denied),
        (_JUMP_EQ, _CLONE3, "lacks", ""),
        (_JUMP_EQ, prlimit64, "own", ""),
        (_JUMP_EQ, clone, "", "allow"),
        (_LOAD, _OFFSET_FIRST_ARGUMENT, "", ""),
        (_JUMP_SET, _NEW_NAMESPACES, "deny", "allow"),
    ]
    own = len(lines)
    lines += [(_LOAD, _OFFSET_FIRST_ARGUMENT, "", ""), (_JUMP_EQ, 0, "allow", "deny")]
    places = {"own": own} | {
        name: len(lines) + i for i, name in enumerate(("allow", "deny", "lacks"))
    }
    lines += [(_RETURN, verdict, "", "") for verdict in (_ALLOW, _DENY, _LACKS)]
    return b"".join(
        # a jump says how many instructions it skips
        struct.pack("=HBBI", code, *(places.get(p, at + 1) - at - 1 for p in (yes, no)), value)
        for at, (code, value, yes, no) in enumerate(lines)
    )
