"""A small run whose every number is known: for the tests of views, report and `show`."""

from __future__ import annotations

from pathlib import Path

from steelyard.episodes import (
    Cause,
    Check,
    Episode,
    Group,
    Outcome,
    Scored,
    Segment,
    StopReason,
    ToolCall,
    Trajectory,
    Turn,
    Unscored,
)
from steelyard.store import BASE_STEP, WARM_START_STEP, RunStore

BUGGY = 'def retry_count(config):\n    return config.get("retries") or 3\n'
FIXED = (
    "def retry_count(config):\n"
    '    value = config.get("retries")\n'
    "    return 3 if value is None else value\n"
)
TASKS = ["a-or", "b-key", "c-or", "d-key", "e-or"]
CHECKS = ("missing", "none", "zero", "normal")


def passed() -> Scored:
    return Scored(1.0, tuple(Check(name, True) for name in CHECKS))


def failed() -> Scored:
    zero = Check("zero", False, "expected 0, got 3")
    return Scored(0.0, tuple(zero if name == "zero" else Check(name, True) for name in CHECKS))


def lost() -> Unscored:
    return Unscored(Cause.SANDBOX_FAILURE, "the sandbox died")


def episode(
    name: str,
    task: str,
    outcome: Outcome,
    *,
    heldout: Outcome | None = None,
    stop_reason: StopReason = StopReason.SUBMITTED,
    program: str = BUGGY,
) -> Episode:
    """The kind of a task is what its name ends with."""
    segment = Segment()
    segment.append_context([7, 8, 9])
    segment.append_action([1, 2, 3, 4], [-0.5] * 4, [0] * 4)
    edit = ToolCall(
        "edit",
        {"path": "settings.py", "old": BUGGY.splitlines()[1], "new": program},
        "edited settings.py",
    )
    calls = (edit, ToolCall("submit", {}, "submitted"))
    turns = [Turn(0, (3, 7), (7, 7), "I fix the bug", calls)]
    if stop_reason is not StopReason.SUBMITTED:
        turns = [Turn(0, (3, 7), (7, 7), "The function retry_count returns\x1b[31m a count.", ())]
    return Episode(
        id=name,
        task=task,
        group=name.rpartition("/")[0],
        trajectory=Trajectory([segment], turns),
        outcome=outcome,
        stop_reason=stop_reason,
        heldout=heldout,
        files={"settings.py": program.encode()},
        seconds={"sampling": 1.5, "grading": 0.5},
        kind=task.rpartition("-")[2],
    )


def evaluated(name: str, solved: dict[str, tuple[int, int]]) -> list[Episode]:
    """`solved` maps a task to (solved, episodes); failures never submitted where `name` is base."""
    reason = StopReason.TURN_LIMIT if name.startswith("base") else StopReason.SUBMITTED
    episodes = []
    for task, (successes, n) in solved.items():
        for i in range(n):
            identifier = f"{name}/{task}/{i}"
            if i < successes:
                made = episode(identifier, task, passed(), heldout=Scored(1.0), program=FIXED)
            else:
                made = episode(identifier, task, failed(), stop_reason=reason)
            episodes.append(made)
    return episodes


def training_group(step: int, task: str, outcomes: list[Outcome], programs: list[str]) -> Group:
    name = f"step-{step}/{task}"
    members = [
        episode(f"{name}/{i}", task, outcome, program=program)
        for i, (outcome, program) in enumerate(zip(outcomes, programs, strict=True))
    ]
    return Group(name, task, members)


def write_run(path: Path, *, finished: bool = True) -> None:
    """Base 0 of 8, warm start 2 of 8, final 4 of 7 scored; `key` stays at 0."""
    store = RunStore.start(path, {"rl": {"steps": 2, "group_size": 4}}, model="tiny")
    store.add_event("audited", "the verifiers of 5 tasks, 0 of them with findings", sound=TASKS)
    store.add_evaluation(
        "base", BASE_STEP, "test", evaluated("base", {"a-or": (0, 4), "b-key": (0, 4)}), seconds=4
    )
    store.add_metrics(
        1, "warm_start", {"loss": 2.0, "seconds_training": 3.0, "tokens_trained": 500}
    )
    store.add_evaluation(
        "warm_start", WARM_START_STEP, "test",
        evaluated("warm_start", {"a-or": (2, 4), "b-key": (0, 4)}), seconds=5,
    )  # fmt: skip
    for step, solved in ((1, 1), (2, 2)):
        for group, used in (
            (
                training_group(
                    step, "c-or",
                    [passed()] * solved + [failed()] * (3 - solved) + [lost()],
                    [FIXED] * solved + [BUGGY] * (4 - solved),
                ),
                True,
            ),
            (training_group(step, "d-key", [failed()] * 4, [BUGGY] * 4), False),
        ):  # fmt: skip
            store.add_group(step, group, "train", used)
        store.add_metrics(
            step,
            "rl",
            {
                "entropy": 0.5 / step,
                "sampling_tokens_per_second": 1000.0,
                "training_tokens_per_second": 2000.0,
                "engine_waiting_seconds": 5.5,
                "learner_waiting_seconds": 6.5,
                "seconds_sampling": 6.0,
                "seconds_grading": 0.5,
                "seconds_training": 5.0,
                "tokens_trained": 300,
                "peak_memory_bytes": 2**30 * step,
                "gap": float("nan"),
            },
            version=step,
        )
        store.add_evaluation(
            f"step-{step}", step, "dev", evaluated(f"dev-{step}", {"e-or": (step, 2)})
        )
    if not finished:
        store.close()
        return
    final = evaluated("final", {"a-or": (4, 4), "b-key": (0, 3)})
    final.append(episode("final/b-key/3", "b-key", lost(), stop_reason=StopReason.FAILED))
    store.add_evaluation("final", 2, "test", final, seconds=6)
    (path / "checkpoints" / "step-000002").mkdir(parents=True)
    (path / "checkpoints" / "step-000002.partial").mkdir()
    store.finish("finished")
