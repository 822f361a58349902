"""What the record costs a real run: time spent in the store and in its figures, beside the steps.

    python benchmarks/record_cost.py                      the main job's tasks, after a warm start
    python benchmarks/record_cost.py --model CHECKPOINT   from a policy that already solves some

Every call that records, and every computation that is only for the record, is timed where it
happens in RL steps of a real run: wall time, and CPU time of its thread, which says what it took
on a busy machine. Needs the train extra, the embedded model and bubblewrap.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steelyard.conductor import read_run_file, train, training
from steelyard.conductor.listener import LineListener
from steelyard.learner import Learner
from steelyard.store import RunReader, RunStore

ROOT = Path(__file__).resolve().parents[1]
RUN_FILE = """\
[run]
name = "record-cost"
directory = "{directory}"

[model]
path = "{model}"

[tasks]
train = "{tasks}/train"
demonstrations = "{tasks}/demonstrations"

[agent]
max_turns = 5
max_turn_tokens = 96
max_episode_tokens = 640

[engine]
max_rows = 96
prefill_tokens = 4096

[learner]
max_bin_tokens = 768

[rl]
steps = {steps}
groups_per_step = {groups}
max_groups_per_step = {groups}
episodes_per_group = 8
learning_rate = 3e-5

[algorithm]
name = "dapo"
"""
WARM_START = """
[warm_start]
epochs = 2
learning_rate = 1.5e-4
episodes_per_batch = 4
run_checks = false
"""
LIMIT = 0.03


class Ledger:
    """Calls, wall seconds and CPU seconds by part, while it is open."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = defaultdict(int)
        self.wall: dict[str, float] = defaultdict(float)
        self.cpu: dict[str, float] = defaultdict(float)
        self.open = False

    @contextmanager
    def entry(self, part: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            if self.open:
                self.calls[part] += 1
                self.wall[part] += time.perf_counter() - wall
                self.cpu[part] += time.thread_time() - cpu

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Times every call of `owner.name` under `part`."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **rest: Any) -> Any:
            with self.entry(part):
                return function(*args, **rest)

        setattr(owner, name, timed)


def observe(ledger: Ledger) -> None:
    """Puts the ledger between the run and all that records; `steps` are the RL steps' wall time."""
    ledger.watch(RunStore, "add_group", "episodes (store)")
    ledger.watch(RunStore, "set_token_fields", "token fields (store, slices)")
    ledger.watch(RunStore, "add_metrics", "step metrics (store)")
    ledger.watch(training, "update_metrics", "figures of tokens")
    ledger.watch(training, "group_figures", "figures of groups")
    step = Learner.step

    def with_observer(self: Learner, *args: Any, **rest: Any) -> Any:
        if "on_entropy" in rest:
            keep = rest["on_entropy"]

            def timed(*values: Any) -> None:
                with ledger.entry("entropy per token (kept)"):
                    keep(*values)

            rest["on_entropy"] = timed
        return step(self, *args, **rest)

    Learner.step = with_observer  # type: ignore[method-assign]
    run_step = training._Run._step

    async def whole(self: Any, *args: Any) -> None:
        ledger.open = True
        began, cpu = time.perf_counter(), time.process_time()
        await run_step(self, *args)
        ledger.open = False
        ledger.wall["step"] += time.perf_counter() - began
        ledger.cpu["step"] += time.process_time() - cpu

    training._Run._step = whole  # type: ignore[method-assign]


def table(ledger: Ledger) -> tuple[str, float]:
    """The Markdown table, and the larger of the shares of wall and of CPU time."""
    rows = ["| part | calls | wall ms | of wall | CPU ms | of CPU |", "|---|---|---|---|---|---|"]
    parts = [part for part in ledger.wall if part != "step"]
    sums = [sum(column[p] for p in parts) for column in (ledger.wall, ledger.cpu)]
    wall, cpu = ledger.wall["step"], ledger.cpu["step"]

    def row(name: str, calls: int, spent: float, worked: float) -> str:
        return (
            f"| {name} | {calls} | {1000 * spent:.1f} | {spent / wall:.3%} |"
            f" {1000 * worked:.1f} | {worked / cpu:.3%} |"
        )

    for part in sorted(parts, key=lambda p: -ledger.wall[p]):
        rows.append(row(part, ledger.calls[part], ledger.wall[part], ledger.cpu[part]))
    rows.append(row("**all of it**", sum(ledger.calls.values()), *sums))
    rows.append(row("RL steps", 0, wall, cpu))
    return "\n".join(rows), max(sums[0] / wall, sums[1] / cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="", help="a checkpoint; default: warm start")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--groups", type=int, default=4)
    arguments = parser.parse_args()
    ledger = Ledger()
    observe(ledger)
    with tempfile.TemporaryDirectory() as scratch:
        text = RUN_FILE.format(
            directory=Path(scratch) / "runs",
            model=arguments.model or "smollm2-135m-instruct",
            tasks=ROOT / "examples" / "falsy-defaults" / "tasks",
            steps=arguments.steps,
            groups=arguments.groups,
        )
        run_file = Path(scratch) / "run.toml"
        run_file.write_text(text + ("" if arguments.model else WARM_START))
        settings = read_run_file(run_file)
        train(settings, LineListener(), accept_audit=True)
        with RunReader(settings.path) as reader:
            updates = sum(value for _, value in reader.metric("updated"))
            n = len(reader.episode_records(purpose="train"))
        size = settings.path.joinpath("run.db").stat().st_size
    text, share = table(ledger)
    print(f"\n{n} episodes in {arguments.steps} steps, {updates:.0f} of which moved the weights;")
    print(f"run.db {size / 2**20:.1f} MiB. The record took {share:.2%} (limit {LIMIT:.0%}).\n")
    print(text)
    if share > LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
