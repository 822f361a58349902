"""reward-doctor: its corpus of answers to sums on the function as (completion, reference)."""

from __future__ import annotations

import sys

from presenting import TextCase, folder_of_case, refuse, report

_THRESHOLD = 0.99
"""Rewards above it count as accepted: at its default of 0, partial credit counts as a flaw."""


def main() -> None:
    """One audit; only where the right answer is one value that may be another one."""
    case = TextCase(folder_of_case())
    row = case.columns[0]
    if set(row) - {"prompt", "expected", "answer", "value"}:
        refuse("the right answer is not one value")
    from reward_doctor.audit import audit

    def check(completion: str, reference: str) -> float:
        # The right answer of the row gives way to that of the corpus, in the same markup.
        given = {
            name: case.dressed(row, reference) if value == case.right(row) else reference
            for name, value in row.items()
            if name != "prompt"
        }
        return case.score({**given, "prompt": row["prompt"]}, completion)

    result = audit(check, threshold=_THRESHOLD)
    print(result.headline, file=sys.stderr)
    report(
        ("exploit" if found in result.exploits_accepted else found.failure_mode or "crash",
         f"{found.case.id} {found.score} {found.error or ''}")
        for found in result.outcomes
        if not found.passed
    )  # fmt: skip


if __name__ == "__main__":
    main()
