"""What an agent can reach, found by looking: runs inside its sandbox, standard library only.

The trusted side sends this file's text as a command and one JSON object of questions as its
argument; one JSON object on stdout answers. It judges nothing, and it is told nothing secret:
what it must recognise comes as SHA-256 hashes.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import json
import marshal
import os
import re
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_SYSTEM = ("/proc", "/sys", "/dev", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
           "/boot", "/etc", "/run/source", "/run/bin", "/run/lib", "/run/systemd", "/var/lib",
           "/snap", "/nix")  # fmt: skip
_MAX_FILES = 5000
_MAX_READ_BYTES = 4 << 20
_MAX_TEXT_BYTES = 8 << 10
_MAX_TEXTS_BYTES = 20 << 10
_LISTED = 100
_CHANNELS = ("/logs", "/logs/verifier", "/tests", "/solution", "/heldout")
_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock",
            "/run/containerd/containerd.sock", "/var/run/crio/crio.sock")  # fmt: skip
_GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}


def main() -> None:
    questions = json.loads(sys.argv[1])
    workspace = os.getcwd()
    parts: dict[str, Callable[[], Any]] = {
        "environment": lambda: dict(os.environ),
        "network": lambda: network(questions["targets"]),
        "outside": lambda: outside(workspace, {*questions["hidden"]}, questions["marker"]),
        "channels": channels,
        "sockets": sockets,
        "processes": processes,
        "repositories": lambda: [
            repository(path, questions["base"]) for path in questions["repositories"]
        ],
        "installed": lambda: installed(workspace, questions["projects"], {*questions["lines"]}),
        "compiled": lambda: compiled(questions["compiled"]),
    }
    answers: dict[str, Any] = {"errors": {}}
    for name, look in parts.items():
        try:
            answers[name] = look()
        except Exception as error:  # one part that fails must not hide the others
            answers["errors"][name] = f"{type(error).__name__}: {error}"
    print(json.dumps(answers))


def network(targets: list[list[Any]]) -> list[list[str]]:
    """The targets that answered, each with what it was asked by."""
    reached: list[list[str]] = []

    def attempt(how: str, host: str, port: int) -> None:
        try:
            detail = _reach(how, host, port)
        except OSError:
            return
        if detail:
            reached.append([how, f"{host} port {port}" if port else host, detail])

    threads = [threading.Thread(target=attempt, args=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3.0)
    return sorted(reached)


def _reach(how: str, host: str, port: int) -> str:
    if how == "resolve":
        return str(socket.getaddrinfo(host, None)[0][4][0])
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    kind = socket.SOCK_DGRAM if how == "udp" else socket.SOCK_STREAM
    with socket.socket(family, kind) as channel:
        channel.settimeout(2.0)
        channel.connect((host, port))
        if how == "udp":  # a name server's answer; a datagram that is merely sent proves nothing
            question = b"\x07example\x03com\x00" + struct.pack("!2H", 1, 1)
            channel.send(struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + question)
            return f"{len(channel.recv(512))} bytes came back"
        return f"connected from {channel.getsockname()[0]}"


def outside(workspace: str, hidden: set[str], marker: str) -> dict[str, Any]:
    """Readable files that are neither the workspace's nor the system's."""
    found: dict[str, Any] = {
        "recognised": {},
        "marked": [],
        "listed": [],
        "texts": {},
        "caches": [],
    }
    room = _MAX_TEXTS_BYTES
    for number, path in enumerate(_files_outside(workspace)):
        if number == _MAX_FILES:
            break
        try:
            with open(path, "rb") as file:
                data = file.read(_MAX_READ_BYTES)
        except OSError:
            continue
        digest = hashlib.sha256(data).hexdigest()
        if digest in hidden:
            found["recognised"].setdefault(digest, path)
        if marker.encode() in data:
            found["marked"].append(path)
        if path.endswith((".whl", ".tar.gz", ".egg")) and len(found["caches"]) < _LISTED:
            found["caches"].append(path)
        if len(found["listed"]) < _LISTED:
            found["listed"].append(path)
        if len(data) <= _MAX_TEXT_BYTES and len(data) <= room and b"\0" not in data:
            room -= len(data)
            found["texts"][path] = data.decode("utf-8", "replace")
    return found


def _files_outside(workspace: str) -> Iterator[str]:
    skipped = {*_SYSTEM, workspace, os.path.realpath(sys.base_prefix)}
    for start in ("/", "/dev/shm", "/var/lib/steelyard"):
        for folder, subfolders, names in os.walk(start):
            subfolders[:] = sorted(
                name for name in subfolders if os.path.join(folder, name) not in skipped
            )
            for name in sorted(names):
                path = os.path.join(folder, name)
                try:
                    if stat.S_ISREG(os.lstat(path).st_mode):
                        yield path
                except OSError:
                    continue


def channels() -> dict[str, str]:
    """The verifier's own places that are there: "present", or "writable" where a file was made."""
    states = {}
    for place in _CHANNELS:
        if not os.path.exists(place):
            try:
                os.makedirs(place)
                os.rmdir(place)
                states[place] = "can be made"
            except OSError:
                pass
            continue
        states[place] = "present"
        name = os.path.join(place, f".steelyard-{os.getpid()}")
        try:
            with open(name, "x"):
                states[place] = "writable"
            os.unlink(name)
        except OSError:
            pass
    return states


def sockets() -> list[str]:
    """The sockets of container engines that accept a connection."""
    reached = []
    for path in _SOCKETS:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            try:
                channel.settimeout(1.0)
                channel.connect(path)
                reached.append(path)
            except OSError:
                continue
    return reached


def processes() -> list[dict[str, Any]]:
    """Every process but this one, its ancestors and pid 1 of its own namespace."""
    own, found = {1}, []
    pid = os.getpid()
    while pid > 1:
        own.add(pid)
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        if int(name) in own:
            continue
        try:
            uid = os.stat(f"/proc/{name}").st_uid
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read(200).replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                readable = bool(file.read(1))
        except OSError:
            readable = False
        found.append({"pid": int(name), "uid": uid, "command": command, "readable": readable})
    return found[:_LISTED]


def repository(path: str, base: str) -> dict[str, Any]:
    """The objects of a git directory that its base commit does not reach, and what names them."""
    git = os.path.abspath(path)
    for folder in ("refs", "objects"):  # empty folders do not travel with files
        os.makedirs(os.path.join(git, folder), exist_ok=True)

    def ask(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["git", "--git-dir", git, "-c", "core.fsmonitor=false", *arguments],
            input=stdin, capture_output=True, text=True, errors="replace", timeout=60,
            env={**os.environ, **_GIT},
        )  # fmt: skip
        if done.returncode:
            raise OSError((done.stderr.strip().splitlines() or ["no message"])[-1][:200])
        return done.stdout

    try:
        listed = ask("cat-file", "--batch-all-objects", "--unordered", "--batch-check")
        kinds = dict(line.split()[:2] for line in listed.splitlines())
        try:
            head = ask("rev-parse", "-q", "--verify", f"{base}^{{commit}}").strip()
        except OSError:
            head = ""
        reached = ask("rev-list", "--objects", head) if head else ""
        later = kinds.keys() - {line.split()[0] for line in reached.splitlines()}
        commits = [name for name in sorted(later) if kinds[name] == "commit"]
        told = ask("log", "--no-walk=unsorted", "--format=%h %ct %s", "--stdin",
                   stdin="\n".join(commits[:1000]) + "\n") if commits else ""  # fmt: skip
        born = int(ask("log", "-1", "--format=%ct", head)) if head else 0
        references = ask("for-each-ref", "--format=%(refname)").split()
    except FileNotFoundError:
        return {"path": path, "error": "git is not installed in the sandbox"}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"path": path, "error": str(error)}
    commits_told = [line.split(" ", 2) for line in told.splitlines()]
    commits_told.sort(key=lambda row: -int(row[1]))
    return {
        "path": path,
        "error": "",
        "head": head[:12],
        "commits": [[row[0], int(row[1]) >= born, row[2][:80]] for row in commits_told[:_LISTED]],
        "newer": sum(int(row[1]) >= born for row in commits_told),
        "objects": len(later),
        "blobs": [name for name in sorted(later) if kinds[name] == "blob"][:400],
        "references": references[:_LISTED],
        "others": [
            name
            for name in ("logs", "ORIG_HEAD", "FETCH_HEAD", "objects/info/alternates")
            if os.path.exists(os.path.join(git, name))
        ],
    }


def installed(workspace: str, projects: list[str], lines: set[str]) -> list[dict[str, Any]]:
    """Installed copies of the distributions that the workspace itself holds the source of."""
    wanted = {_normal(name): name for name in projects}
    found = []
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"] or ""
        place = str(distribution.locate_file(""))
        if _normal(name) not in wanted or place.startswith(workspace):
            continue
        seen: set[str] = set()
        for file in distribution.files or []:
            if file.suffix == ".py":
                seen |= line_hashes(str(distribution.locate_file(file))) & lines
        found.append({"name": name, "version": distribution.version, "place": place,
                      "lines": len(seen)})  # fmt: skip
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def compiled(paths: list[str]) -> dict[str, list[str]]:
    """The functions of compiled files and of sources; none where this Python cannot read one."""
    found = {}
    for path in paths:
        with open(path, "rb") as file:
            data = file.read(_MAX_READ_BYTES)
        try:
            if path.endswith(".py"):
                code = compile(data, path, "exec", dont_inherit=True)
            elif data[:4] == importlib.util.MAGIC_NUMBER:
                code = marshal.loads(data[16:])  # hostile bytes can at worst end this process
            else:
                continue
        except (SyntaxError, ValueError, EOFError, TypeError):
            continue
        found[path] = sorted(_shapes(code))
    return found


def _shapes(code: Any) -> Iterator[str]:
    """One hash per function: its instructions, names and plain constants, but not its lines."""
    plain = [repr(c) for c in code.co_consts if not hasattr(c, "co_code")]
    identity = [base64.b64encode(code.co_code).decode(), *code.co_names, *plain]
    if code.co_name != "<module>":
        yield f"{code.co_name} {hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]}"
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from _shapes(constant)


def line_hashes(path: str) -> set[str]:
    """The hashes of a text file's lines, spaces at their ends aside."""
    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_READ_BYTES)
    except OSError:
        return set()
    return {hashlib.sha256(line.strip()).hexdigest()[:16] for line in text.splitlines()}


if __name__ == "__main__":
    main()
