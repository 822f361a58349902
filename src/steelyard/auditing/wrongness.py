"""Whether a program is wrong, established without the verifier that is under audit."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.auditing.arena import Arena
from steelyard.auditing.calls import verifier_calls, visible_calls
from steelyard.auditing.domain import domain_of, within
from steelyard.auditing.inputs import neighbours
from steelyard.auditing.likeness import Likeness
from steelyard.auditing.separate import CannotCompare, Separation, separate
from steelyard.auditing.target import Target
from steelyard.episodes import Scored
from steelyard.sandbox import Sandbox, SandboxSettings
from steelyard.sandbox.wire import UnsupportedValue, encode

_MAX_INPUTS = 400
_PER_CALL = 60
_CALL_SECONDS = 1.0
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why a program is wrong: a held-out check that it fails, or an input on which it differs from
    the reference. `inside` says whether the task itself has shown such inputs."""

    evidence: str
    inside: bool


class Wrongness:
    """Compares programs with a target's reference. Thread-safe; close it.

    Held-out checks that refuse the reference itself (`trusted` is False) are no evidence.
    """

    def __init__(
        self, target: Target, arena: Arena, settings: SandboxSettings, *, trusted: bool = True
    ) -> None:
        self._target = target
        self._trusted = trusted
        self._arena = arena
        self._sandbox = Sandbox(settings)
        self._lock = threading.Lock()

    def close(self) -> None:
        self._sandbox.close()

    def of(self, files: Mapping[str, bytes]) -> Wrong | None:
        """None where nothing shows that the program is wrong. Raises SandboxError."""
        return self._by_heldout(files) or self._by_difference(files)

    def _by_heldout(self, files: Mapping[str, bytes]) -> Wrong | None:
        task = self._target.task
        if task.heldout is None or not self._trusted:
            return None
        outcome = self._arena.grade_heldout(task, files)
        if not isinstance(outcome, Scored) or outcome.solved:
            return None
        failed = [check for check in outcome.checks if not check.passed]
        shown = f"{failed[0].name}: {failed[0].detail}" if failed else f"reward {outcome.reward:g}"
        return Wrong(f"the held-out checks fail it ({shown})", True)

    def _by_difference(self, files: Mapping[str, bytes]) -> Wrong | None:
        gold = self._target.gold
        if gold is None:
            return None
        for module in self._target.modules:
            for function in self._target.functions(module):
                calls = self._calls(function)
                if not calls:
                    continue
                domains = domain_of(calls)
                inputs = list(itertools.islice(_inputs(calls), _MAX_INPUTS))
                ordered = [a for a in inputs if within(domains, a)]
                ordered += [a for a in inputs if not within(domains, a)]
                found = self._separated(gold, files, module, function, ordered)
                if found is not None:
                    shown = ", ".join(map(repr, found.arguments))
                    return Wrong(
                        f"{function}({shown:.200}) {found.right:.120}; the reference "
                        f"{found.left:.120}",
                        within(domains, found.arguments),
                    )
        return None

    def _separated(
        self,
        gold: Mapping[str, bytes],
        files: Mapping[str, bytes],
        module: str,
        function: str,
        inputs: Sequence[tuple[Any, ...]],
    ) -> Separation | None:
        with self._lock:
            try:
                return separate(
                    self._sandbox,
                    gold,
                    files,
                    module,
                    function,
                    inputs,
                    call_timeout_seconds=_CALL_SECONDS,
                    timeout_seconds=_SECONDS,
                    left_returns=True,  # what the reference refuses, nobody is asked to do
                    alike=Likeness(self._target.task.instruction),
                )
            except CannotCompare:
                return None

    def _calls(self, function: str) -> list[tuple[Any, ...]]:
        """Arguments that the verifier or the visible text shows for this function."""
        seen = [*verifier_calls(self._target, function), *visible_calls(self._target, function)]
        unique = {repr(call.arguments): call.arguments for call in seen if not call.keywords}
        return [arguments for arguments in unique.values() if _is_plain(arguments)]


def _inputs(calls: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The calls themselves, then what lies near each of them, in turn, without repetition."""
    seen: set[str] = set()
    near = [itertools.islice(neighbours(call, random.Random(0)), _PER_CALL) for call in calls]
    rounds = itertools.chain.from_iterable(itertools.zip_longest(*near))
    for arguments in itertools.chain(calls, rounds, _recombined(calls)):
        if arguments is not None and repr(arguments) not in seen:
            seen.add(repr(arguments))
            yield arguments


def _recombined(calls: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Arguments of one call with one argument of another."""
    for left, right in itertools.permutations(calls[:12], 2):
        if len(left) == len(right) > 1:
            for place in range(len(left)):
                yield (*left[:place], right[place], *left[place + 1 :])


def _is_plain(arguments: tuple[Any, ...]) -> bool:
    """Whether the arguments can be sent to a program."""
    try:
        encode(list(arguments))
    except UnsupportedValue:
        return False
    return True
