"""What the sandbox itself lets through, whatever the task: from the explorer's answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steelyard.auditing.findings import Finding, Strength
from steelyard.auditing.leak_wording import leak, rows

_PROVED, _LEAD = Strength.PROVED, Strength.LEAD


def isolation(answers: Mapping[str, Any], leftovers: Sequence[str]) -> Iterator[Finding]:
    """What the sandbox lets through, whatever the task."""
    reached = answers.get("network", [])
    metadata = [row for row in reached if row[0] == "metadata"]
    network = [row for row in reached if row[0] != "metadata"]
    if network:
        yield leak(
            "network", _PROVED, "the agent's commands reach the network",
            evidence=rows(f"{how} {where}: {detail}" for how, where, detail in network),
            use="clone the upstream repository, install the fixed release, or send data out",
            fix='network_mode = "no-network" in [environment], or an allow-list of hosts',
        )  # fmt: skip
    if metadata:
        yield leak(
            "metadata", _PROVED, "the cloud's metadata service answers in the sandbox",
            evidence=rows(f"{where}: {detail}" for _, where, detail in metadata),
            use="ask it for the machine's credentials and act as the machine",
            fix="no network for the sandbox, or drop traffic to link-local addresses",
        )  # fmt: skip
    if answers.get("sockets"):
        yield leak(
            "container-engine", _PROVED, "a container engine's socket accepts connections",
            evidence=rows(answers["sockets"]),
            use="start a container with the host's disk mounted: that is root on the host",
            fix="do not mount the engine's socket",
        )  # fmt: skip
    yield from _channels(answers.get("channels", {}))
    yield from _processes(answers.get("processes", []))
    marked = answers.get("outside", {}).get("marked", [])
    if marked:
        yield leak(
            "other-episodes", _PROVED, "files of an earlier episode are found in the next",
            evidence=rows(marked),
            use="read what another attempt has found out, or leave notes for the next one",
            fix="a sandbox of its own for every episode, or one emptied between episodes",
        )  # fmt: skip
    if leftovers:
        yield leak(
            "leftovers", _LEAD, "the workspace holds files that the task does not lay there",
            evidence=rows(leftovers),
            use="read them: they may come from the image or from another episode",
            fix="start from an empty workspace and lay the task's files alone",
        )  # fmt: skip
    for part, reason in answers.get("errors", {}).items():
        yield leak(
            "unexplored", _LEAD, f"{part} could not be explored",
            evidence=reason, use="unknown: this part of the inventory is missing",
            fix="see that python3 runs in the agent's sandbox",
        )  # fmt: skip


def _channels(channels: Mapping[str, str]) -> Iterator[Finding]:
    writable = [p for p, state in channels.items() if state == "writable"]
    present = [p for p, state in channels.items() if state != "writable"]
    if writable:
        yield leak(
            "reward-channel", _PROVED, "the agent can write where the verifier reads or writes",
            evidence=rows(f"{place}: {channels[place]}" for place in writable),
            use="write the reward itself, or plant a conftest.py or module beside the tests",
            fix='environment_mode = "separate" in [verifier]; lay /tests and /logs only for it',
        )  # fmt: skip
    if present:
        yield leak(
            "reward-channel", _LEAD, "a place of the verifier is open while the agent works",
            evidence=rows(f"{place}: {channels[place]}" for place in present),
            use="read what lies there, or plant a file that the verifier will find",
            fix="lay /tests, /solution and /logs/verifier only once the agent has ended",
        )  # fmt: skip


def _processes(processes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    if not processes:
        return
    readable = [row for row in processes if row["readable"]]
    yield leak(
        "processes",
        _PROVED if readable else _LEAD,
        "the agent sees processes that are not its own",
        evidence=rows(f"pid {r['pid']} uid {r['uid']}: {r['command']}" for r in processes),
        use="read their variables and arguments, signal them, or wait for the verifier",
        fix="a process namespace of its own for the sandbox, and a uid that nobody else has",
    )
