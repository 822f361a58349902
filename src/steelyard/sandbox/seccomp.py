"""System calls that no sandbox needs and that would reach past it.

The namespaces do the isolating; this filter closes what they leave open between processes of one
uid (tracing, and lowering another process's limits), and state that outlives a process (keyrings,
System V and POSIX message queues), through which one graded program could speak to the next.
"""

from __future__ import annotations

import errno
import platform
import struct

_ALLOW = 0x7FFF0000
_DENY = 0x00050000 | errno.EPERM
_LOAD, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x15, 0x35, 0x06
_OFFSET_NR, _OFFSET_ARCH, _OFFSET_FIRST_ARGUMENT = 0, 4, 16
_X32 = 0x40000000  # x86-64 system calls under other numbers

# The order is that of _DENIED_NAMES; the numbers are those of each architecture's ABI.
_DENIED_NAMES = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"),
    *("add_key", "request_key", "keyctl", "shmget", "semget", "msgget", "mq_open"),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup"),
)
_NUMBERS: dict[str, tuple[int, tuple[int, ...], int]] = {
    # machine: (audit architecture, the denied calls, prlimit64)
    "x86_64": (
        0xC000003E,
        (101, 310, 311, 438, 248, 249, 250, 29, 64, 68, 240, 321, 298, 323, 425),
        302,
    ),
    "aarch64": (
        0xC00000B7,
        (117, 270, 271, 438, 217, 218, 219, 194, 190, 186, 180, 280, 241, 282, 425),
        261,
    ),
}


def seccomp_filter(machine: str | None = None) -> bytes | None:
    """The filter as classic BPF, an array of `struct sock_filter`; denied calls give EPERM.

    `prlimit64` is allowed only on the caller itself. None for an architecture whose system call
    numbers are not listed here: the sandbox then does without.
    """
    known = _NUMBERS.get(machine or platform.machine())
    if known is None:
        return None
    architecture, denied, prlimit64 = known
    assert len(denied) == len(_DENIED_NAMES)
    # Jumps go forward only and count instructions to skip; the last two are allow and deny.
    end = 2 + 1 + 1 + len(denied) + 3
    program = [(_LOAD, 0, 0, _OFFSET_ARCH), (_JUMP_EQ, 0, end - 1, architecture)]
    program.append((_LOAD, 0, 0, _OFFSET_NR))
    for code, number in [(_JUMP_GE, _X32), *((_JUMP_EQ, number) for number in denied)]:
        program.append((code, end - len(program), 0, number))
    program.append((_JUMP_EQ, 0, 2, prlimit64))
    program.append((_LOAD, 0, 0, _OFFSET_FIRST_ARGUMENT))
    program.append((_JUMP_EQ, 0, 1, 0))
    assert len(program) == end
    program += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _DENY)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
