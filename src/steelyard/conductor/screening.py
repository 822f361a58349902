"""No run on a broken verifier: the tasks are audited first, quickly, and each content only once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import steelyard.auditing
from steelyard.auditing import AuditSettings, TaskAudit, Verdict, Watcher, audit
from steelyard.auditing.target import Target, targets_of
from steelyard.conductor import untouched
from steelyard.conductor.caching import keep
from steelyard.episodes import Scored
from steelyard.grading import GradingSettings
from steelyard.models.places import cache_directory
from steelyard.tasks import RewardFunction, Task

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Screened:
    """What the quick audit says of one task: its verdict, and its proved findings as sentences and
    by kind."""

    task: str
    verdict: str
    problems: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return f"{self.verdict}: {self.task}: {'; '.join(self.problems)}"


def screen(
    tasks: Sequence[Task], grading: GradingSettings, on_done: Callable[[], None] = lambda: None
) -> list[Screened]:
    """The quick audit of every task, from the cache where the same content was audited before.

    Raises ValueError where a task cannot be audited at all.
    """
    # What the sandbox lets through is the same for every task of a run.
    settings = AuditSettings(quick=True, explored=1, grading=grading)
    known: dict[str, Screened] = {}
    waiting: list[Target] = []
    for target in targets_of(tasks, max_examples=settings.max_examples):
        found = _cached(_key(target, settings))
        if found is None:
            waiting.append(target)
        else:
            known[target.name] = found
            on_done()
    remaining = [task for target in waiting for task in target.examples]
    report = audit(remaining, settings, Watcher(done=lambda _: on_done()))
    for target, result in zip(waiting, report.tasks, strict=True):
        if result.error:
            raise ValueError(f"task {result.task} could not be audited: {result.error}")
        known[target.name] = _remember(_key(target, settings), result)
        if isinstance(result.untouched, Scored) and untouched.suites(target.task):
            untouched.remember(target.task, "training", result.untouched.checks)
    return list(known.values())


def refuse_broken(screened: Sequence[Screened]) -> None:
    """Raises ValueError, naming the broken tasks and what to do, if there are any."""
    broken = [result for result in screened if result.verdict == Verdict.BROKEN.value]
    if not broken:
        return
    named = "; ".join(f"{result.task}: {result.problems[0]}" for result in broken[:_NAMED])
    more = f" and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
    raise ValueError(
        f"{len(broken)} of {len(screened)} tasks have a broken verifier ({named}{more}); mend them "
        "(steelyard audit shows how), or train all the same with --accept-audit"
    )


def _key(target: Target, settings: AuditSettings) -> str:
    """A hash of all that the audit's result depends on."""
    digest = hashlib.sha256(_own_code())
    digest.update(settings.model_dump_json().encode())
    for task in target.examples:
        digest.update(repr(replace(task, source=None)).encode())
        if isinstance(task.verifier, RewardFunction):
            for path in sorted(task.verifier.path.parent.glob("*.py")):
                digest.update(path.read_bytes())
        elif task.source is not None and task.source.is_dir():
            for path in sorted(task.source.rglob("*")):
                if path.is_file():
                    digest.update(f"{path.relative_to(task.source)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _own_code() -> bytes:
    """The audit's own sources: a better audit looks again."""
    folder = Path(steelyard.auditing.__file__).parent
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))


def _place(key: str) -> Path:
    return cache_directory() / "audits" / f"{key}.json"


def _cached(key: str) -> Screened | None:
    try:
        data = json.loads(_place(key).read_text())
        kinds, problems = tuple(data["kinds"]), tuple(data["problems"])
        return Screened(data["task"], data["verdict"], problems, kinds)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(key: str, result: TaskAudit) -> Screened:
    problems = tuple(f"{f.title} ({f.evidence})" for f in result.findings if f.proved)
    kinds = tuple(sorted({f.kind.value for f in result.findings if f.proved}))
    screened = Screened(result.task, result.verdict.value, problems, kinds)
    keep(_place(key), json.dumps(asdict(screened)))
    return screened
