"""harbor lint: all its rules on the task directory, through the function of its command."""

from __future__ import annotations

from presenting import folder_of_case, refuse, report


def main() -> None:
    """One lint."""
    folder = folder_of_case()
    if not (folder / "task.toml").exists():
        refuse("it takes Harbor tasks")
    if not (folder / "tests" / "test.sh").exists():
        refuse("the task has checks as data, which are ours, and no tests/test.sh")
    from harbor.lint import lint_task
    from harbor.lint.models import DEFAULT_RULES

    report(
        ("default rule" if f.rule in DEFAULT_RULES else "opt-in rule", f"{f.rule}: {f.message}")
        for f in lint_task(folder)
    )


if __name__ == "__main__":
    main()
