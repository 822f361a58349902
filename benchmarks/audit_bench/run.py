"""Audits every case of the corpus and compares what is said with its label.

    python benchmarks/audit_bench/run.py                 all cases
    python benchmarks/audit_bench/run.py text- --json    those with text- in their names, as JSON
    python benchmarks/audit_bench/run.py json-wins --write cases    only write that case, to cases/

Exit code 0: recall is at least 0.95 and there is no false alarm; 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

from corpus import CASES, Case, write_case
from corpus.classes import ACCEPTS_WRONG, EXPOSES, REJECTS_RIGHT
from rich.console import Console
from rich.progress import track
from scoring import Heard, score, table

from steelyard.auditing import audit
from steelyard.tasks import TaskWarning, load_tasks

_GOAL = 0.95
_EFFECTS = {
    "cheat": ACCEPTS_WRONG,
    "weak": ACCEPTS_WRONG,
    "rejects": REJECTS_RIGHT,
    "broken": REJECTS_RIGHT,
    "leak": EXPOSES,
}


def listen(case: Case, folder: Path) -> Heard:
    """What Steelyard's audit says of one case: the one place that knows its interface."""
    started = time.monotonic()
    path = write_case(case, folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TaskWarning)
            report = audit(load_tasks(path))
    except ValueError as error:
        return Heard(frozenset(), seconds=time.monotonic() - started, error=str(error))
    findings = [finding for task in report.tasks for finding in task.findings]
    effects = {_EFFECTS[str(f.kind)] for f in findings if f.proved and str(f.kind) in _EFFECTS}
    if case.flaw == "unpinned" and any("pin" in f"{f.probe} {f.title}".lower() for f in findings):
        effects.add(EXPOSES)  # never provable: a remark is all that can be asked for
    return Heard(
        frozenset(effects),
        tuple(f"{f.probe}: {f.title}" for f in findings if f.proved),
        time.monotonic() - started,
        "; ".join(task.error for task in report.tasks if task.error),
    )


def main() -> None:
    """Runs the audits and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only cases with one of these in their names")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--write", type=Path, help="only write the cases, below this folder")
    arguments = parser.parse_args()
    chosen = [
        case
        for case in CASES
        if not arguments.words or any(word in case.name for word in arguments.words)
    ]
    if not chosen:
        sys.exit(f"no case has one of {arguments.words} in its name")
    if arguments.write is not None:
        for case in chosen:
            print(write_case(case, arguments.write))
        return
    with tempfile.TemporaryDirectory() as folder:
        progress = track(chosen, "auditing", console=Console(stderr=True))
        heard = {case.name: listen(case, Path(folder)) for case in progress}
    result = score(chosen, heard)
    if arguments.json:
        cases = {
            case.name: {
                "flaw": case.flaw,
                "effects": sorted(heard[case.name].effects),
                "said": heard[case.name].said,
                "error": heard[case.name].error,
                "seconds": round(heard[case.name].seconds, 2),
            }
            for case in chosen
        }
        print(json.dumps({"score": result.as_dict(), "cases": cases}, indent=1))
    else:
        console = Console()
        console.print(table(result, "Steelyard's audit"))
        for name in result.missed:
            console.print(f"missed: {name} {heard[name].error}", highlight=False)
        for name in result.false_alarms:
            console.print(f"false alarm: {name}: {heard[name].said}", highlight=False)
    sys.exit(result.recall < _GOAL or bool(result.false_alarms))


if __name__ == "__main__":
    main()
