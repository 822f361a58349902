"""An audit as a Markdown report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from steelyard.auditing.findings import Finding, Report, Strength, TaskAudit

_HEADINGS = (
    (Strength.PROVED, "Proved"),
    (Strength.LEAD, "Leads"),
    (Strength.OBSERVATION, "Observations"),
)
_ARTIFACT_CHARACTERS = 3000


def markdown(report: Report) -> str:
    """The whole report: a table of the tasks, then each task's findings by strength."""
    parts = ["# Audit\n", *_table(report.tasks)]
    for task in report.tasks:
        parts.append(f"\n## {task.task}\n")
        parts += _task(task)
    return "\n".join(parts) + "\n"


def tried(task: TaskAudit) -> str:
    """How many probes and submissions stand behind a verdict, in words."""
    probes = len({trial.probe for trial in task.trials})
    return f"{len(task.trials)} tries of {probes} probes" if probes else "quick"


def mutation(task: TaskAudit) -> str:
    """The mutation score in words."""
    score = task.mutation_score
    if score is None:
        return "-"
    killed, survived = task.mutants["killed"], task.mutants["survived"]
    return f"{killed} of {killed + survived} killed"


def _table(tasks: Iterable[TaskAudit]) -> Iterator[str]:
    yield "| task | verdict | tier | proved | leads | mutants | tried | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    for task in tasks:
        counts = [
            sum(f.strength is strength for f in task.findings)
            for strength in (Strength.PROVED, Strength.LEAD)
        ]
        verdict = "could not be audited" if task.error else task.verdict.value
        yield (
            f"| {task.task} | {verdict} | {task.tier.value} | {counts[0]} | {counts[1]} | "
            f"{mutation(task)} | {tried(task)} | {task.seconds:.1f} |"
        )


def _task(task: TaskAudit) -> Iterator[str]:
    if task.error:
        yield f"The audit could not run: {task.error}"
        return
    if not task.findings:
        yield "Nothing was found."
    for strength, heading in _HEADINGS:
        found = [finding for finding in task.findings if finding.strength is strength]
        if found:
            yield f"### {heading}\n"
            for finding in found:
                yield from _finding(finding)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"**{finding.title}** (`{finding.probe}`)\n"
    yield f"- Seen: {finding.evidence}"
    yield f"- How an agent would use it: {finding.use}"
    yield f"- Fix: {finding.fix}"
    yield f"- Again: `{finding.command}`\n"
    if finding.artifact:
        text = finding.artifact[:_ARTIFACT_CHARACTERS].rstrip()
        fence = "`" * max(3, 1 + max(map(len, _runs_of_backticks(text)), default=0))
        yield f"{fence}\n{text}\n{fence}\n"


def _runs_of_backticks(text: str) -> list[str]:
    runs, current = [], ""
    for character in f"{text} ":
        if character == "`":
            current += character
        elif current:
            runs.append(current)
            current = ""
    return runs
