"""What to try next, by cause; keys are those of the run file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.monitor.causes import Why


def advice(verdict: Why, config: Mapping[str, Any]) -> list[str]:
    """The next things to try, the most telling first; names the run's own values."""

    def key(name: str) -> str:
        value: Any = config
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return name if value is None else f"{name} (now {value})"

    match verdict:
        case Why.HAS_GRADIENT:
            return []
        case Why.MASTERED:
            return [
                "nothing is wrong: give the batch to harder tasks, or learn only from mixed groups"
                " (rl.dynamic_sampling = true)",
            ]
        case Why.ACCEPTS_WRONG_WORK:
            return [
                "stop optimising against this verifier: `steelyard audit` shows what it pays for",
                "add checks for what the held-out checks refuse",
            ]
        case Why.REJECTS_RIGHT_WORK:
            return [
                "grade the reference solution: the experiment below does",
                "mend the verifier or drop the task: no policy learns what is never paid",
                "`steelyard audit` looks for other right solutions that it refuses",
            ]
        case Why.ERROR:
            return [
                "read the cause of the example episodes; `steelyard doctor` tests the sandbox",
                "raise [verifier] timeout_sec in task.toml where the verifier timed out",
            ]
        case Why.TRUNCATED:
            return [
                f"raise {key('agent.max_turn_tokens')}",
                "teach it to end its turns: demonstrations and [warm_start]",
            ]
        case Why.UNPARSED:
            return [
                "teach it the form of a call: tasks.demonstrations and [warm_start]",
                "see in the example episodes what it writes instead",
            ]
        case Why.REPEATS_ITSELF:
            return [
                "show it the way out of an error: tasks.demonstrations and"
                f" {key('warm_start.slip_fraction')}; more turns would hold more of the same",
                "see in the example episodes which call it repeats, and what it is answered",
            ]
        case Why.NOT_HANDED_IN:
            return [
                f"raise {key('agent.max_turns')} or {key('agent.max_episode_tokens')}, whichever"
                " ended them",
                "show it when to hand in: tasks.demonstrations and [warm_start]",
            ]
        case Why.NO_EXPLORATION:
            return [
                f"sample more widely: {key('engine.temperature')}",
                f"keep entropy up: {key('algorithm.entropy')}; train the warm start for less",
                f"imitate its reference: {key('rl.rehearsal_rate_fraction')}",
            ]
        case Why.SELDOM_SOLVED:
            return [
                f"more samples to a group: {key('rl.episodes_per_group')}",
                f"weigh rare successes more: {key('algorithm.name')}: maxrl",
                f"imitate the reference where none succeeds: {key('rl.rehearsal_rate_fraction')}",
                f"pay part of the way: {key('shaping.partial_credit')}",
            ]
        case Why.BEYOND_ABILITY:
            return [
                "let a stronger policy or many more samples try: the experiment below does",
                "demonstrate the kind, or begin with easier tasks of it",
                f"imitate the reference where none succeeds: {key('rl.rehearsal_rate_fraction')}",
                f"pay part of the way: {key('shaping.partial_credit')}",
            ]
        case Why.UNDECIDED:
            return [
                "let the reference solution and more samples decide: the experiment below does",
                "give the task held-out checks",
            ]
