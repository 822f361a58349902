"""`steelyard audit`: attack a verifier before anybody optimises against it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from steelyard.auditing import AuditSettings, Finding, Report, TaskAudit
    from steelyard.tasks import Task

_COLOURS = {"sound": "green", "weak": "yellow", "broken": "red"}
_SHOWN_LINES = 24


def audit(
    path: Annotated[
        str, typer.Argument(help="A task, a folder of tasks, a JSONL, humaneval, module:function.")
    ],
    examples: Annotated[
        Path | None, typer.Option(help="For module:function: the JSONL with its examples.")
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="For a JSONL: module:function or file.py:function.")
    ] = None,
    gold: Annotated[
        str | None, typer.Option(help="For a JSONL: the column that holds the right answer.")
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="Only the reference, doing nothing, leaks and the lint.")
    ] = False,
    only: Annotated[
        str, typer.Option(help="One family of probes, or one probe: exits, exits/atexit.")
    ] = "",
    shared: Annotated[
        bool, typer.Option(help="Grade in the agent's sandbox, as Harbor's default mode does.")
    ] = False,
    threshold: Annotated[float, typer.Option(help="The reward that counts as a success.")] = 1.0,
    max_examples: Annotated[int, typer.Option(help="Examples of a JSONL that are tried.")] = 8,
    max_mutants: Annotated[int, typer.Option(help="Mutants of each reference.")] = 24,
    workers: Annotated[int, typer.Option(help="Programs that are graded at once.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    fix_git: Annotated[
        bool,
        typer.Option(help="First drop later history from repositories in environment/."),
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Write a Markdown report here.")] = None,
) -> None:
    """Attack each task's verifier: can it be cheated, does it reject right work, what leaks?

    Exit status: 0 nothing was proved, 1 something was, 2 the audit could not run.
    """
    from steelyard.auditing import AuditSettings, markdown
    from steelyard.grading import GradingSettings

    settings = AuditSettings(
        quick=quick,
        only=only,
        shared=shared,
        threshold=threshold,
        max_examples=max_examples,
        max_mutants=max_mutants,
        grading=GradingSettings(workers=workers),
    )
    if fix_git:
        _prune(Path(path), quiet=as_json)
    with warnings.catch_warnings():
        if as_json:
            warnings.simplefilter("ignore")  # the lint says the same, inside the document
        tasks = _load(path, examples, reward, gold)
        result = _run(tasks, settings, quiet=as_json)
    if report is not None:
        report.write_text(markdown(result))
    if as_json:
        print(json.dumps(result.as_dict(), indent=2))
    else:
        _print(result, detailed=bool(only) or len(result.tasks) == 1)
    raise typer.Exit(result.exit_code)


def _prune(path: Path, *, quiet: bool) -> None:
    from steelyard.auditing.fix_git import describe, find_repositories, prune_git

    # Only what agents are given: a user's own repository above it is none of our business.
    found = [place for place in find_repositories(path) if "environment" in place.parts]
    if not found:
        raise ValueError(f"{path}: no environment/ below it holds a git repository; drop --fix-git")
    for directory in found:
        pruned = prune_git(directory)
        if not quiet:
            print(f"{directory}: {describe(pruned)}")


def _load(path: str, examples: Path | None, reward: str | None, gold: str | None) -> list[Task]:
    from steelyard.tasks import load_tasks

    module, colon, function = path.rpartition(":")
    if not (colon and module and function.isidentifier()) or Path(path).exists():
        return load_tasks(path, reward=reward, gold=gold)
    if examples is None:
        raise ValueError(
            f"{path}: a reward function is audited on examples; add --examples FILE.jsonl, one "
            '{"prompt": "…", "expected": "…"} per line'
        )
    return load_tasks(examples, reward=path, gold=gold)


def _run(tasks: list[Task], settings: AuditSettings, *, quiet: bool) -> Report:
    from steelyard.auditing import Watcher
    from steelyard.auditing import audit as run_audit

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn())  # fmt: skip
    with Progress(
        *columns, transient=True, disable=quiet, console=Console(stderr=True)
    ) as progress:
        bar = progress.add_task("attacking", total=0)

        def planned(count: int) -> None:
            progress.update(bar, total=(progress.tasks[bar].total or 0) + count)

        def done(result: TaskAudit) -> None:
            progress.update(bar, description=f"attacking (done: {result.task})")

        watcher = Watcher(planned, lambda: progress.advance(bar), done)
        return run_audit(tasks, settings, watcher)


def _print(report: Report, *, detailed: bool) -> None:
    console = Console()
    for task in report.tasks:
        shown = [f for f in task.findings if f.proved or detailed]
        for finding in shown:
            console.print(_panel(task, finding, full=detailed))
    console.print(_table(report))
    proved = sum(f.proved for task in report.tasks for f in task.findings)
    sound = sum(not task.error and task.verdict.value == "sound" for task in report.tasks)
    console.print(f"{sound} of {len(report.tasks)} sound; {proved} proved findings")


def _table(report: Report) -> Table:
    from steelyard.auditing.report import mutation, tried

    table = Table("task", "verdict", "tier", "proved", "leads", "mutants", "tried", "seconds")
    for task in report.tasks:
        if task.error:
            table.add_row(escape(task.task), f"[red]{escape(task.error)}[/red]")
            continue
        verdict = task.verdict.value
        leads = sum(f.strength.value == "lead" for f in task.findings)
        table.add_row(
            escape(task.task),
            f"[{_COLOURS[verdict]}]{verdict}[/]",
            task.tier.value,
            str(sum(f.proved for f in task.findings)),
            str(leads),
            mutation(task),
            tried(task),
            f"{task.seconds:.1f}",
        )
    return table


def _panel(task: TaskAudit, finding: Finding, *, full: bool) -> Panel:
    lines = Text.assemble(
        (f"{finding.title}\n", "bold"),
        ("seen    ", "bold"), finding.evidence, "\n",
        ("use     ", "bold"), finding.use, "\n",
        ("fix     ", "bold"), finding.fix, "\n",
        ("again   ", "bold"), finding.command,
    )  # fmt: skip
    parts: list[Text | Syntax] = [lines]
    if full and finding.artifact:
        shown = finding.artifact.rstrip().splitlines()
        cut = [f"… {len(shown) - _SHOWN_LINES} more lines"] if len(shown) > _SHOWN_LINES else []
        text = "\n".join([*(line[:160] for line in shown[:_SHOWN_LINES]), *cut])
        lexer = "diff" if finding.artifact.startswith("--- ") else "text"
        parts.append(Syntax(text, lexer, word_wrap=True, background_color="default"))
    style = {"proved": "red", "lead": "yellow"}.get(finding.strength.value, "dim")
    title = f"{finding.strength.value} · {task.task} · {finding.probe}"
    return Panel(Group(*parts), title=escape(title), title_align="left", border_style=style)
