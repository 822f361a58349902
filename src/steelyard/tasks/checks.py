"""`checks.json`: behavioural checks on a Python function or a command-line program, as data."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from steelyard.tasks.explain import explain
from steelyard.tasks.task import (
    ChecksFile,
    CheckSpec,
    FunctionChecks,
    ProgramCheck,
    ProgramChecks,
    ReferenceChecks,
)

_PYTHON_FILE = r"^[A-Za-z_][\w/]*\.py$"
_NAME = r"^[A-Za-z_]\w*$"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Entry(_Model):
    name: str = Field(min_length=1, description="the check's name")
    arguments: list[Any] = Field(description="the list of the call's arguments")
    expected: Any = Field(description="the value that the call must return")


class _FunctionFile(_Model):
    module: str = Field(
        pattern=_PYTHON_FILE, description='a Python file of the workspace, "settings.py"'
    )
    function: str = Field(pattern=_NAME, description="the name of a function")
    checks: list[_Entry] = Field(
        min_length=1, description="a list of at least one {name, arguments, expected}, names unique"
    )

    @field_validator("checks")
    @classmethod
    def _names_are_unique(cls, entries: list[_Entry]) -> list[_Entry]:
        _require_unique([entry.name for entry in entries])
        return entries


class _ReferenceFile(_Model):
    module: str = Field(
        pattern=_PYTHON_FILE, description='a Python file of the workspace, "settings.py"'
    )
    function: str = Field(pattern=_NAME, description="the name of a function")
    reference: str = Field(
        pattern=_PYTHON_FILE, description="a Python file beside checks.json that defines function"
    )
    inputs: str = Field(
        pattern=_PYTHON_FILE, description="a Python file beside checks.json with inputs(seed)"
    )
    seed: int = Field(default=0, description="an integer, given to inputs(seed)")


class _Expected(_Model):
    stdout: str | None = Field(default=None, description="the text that must be printed")
    exit_code: int = Field(default=0, description="an integer, the exit code")
    files: dict[str, str] = Field(default={}, description="a table of file name to text")


class _Numbers(_Model):
    numbers: float = Field(
        ge=0, allow_inf_nan=False, description="the largest difference of two numbers"
    )


class _Run(_Model):
    name: str = Field(min_length=1, description="the check's name")
    arguments: list[str] = Field(default=[], description="a list of strings")
    stdin: str = Field(default="", description="the text on standard input")
    files: dict[str, str] = Field(default={}, description="a table of file name to text")
    expected: _Expected = Field(description="a table {stdout, exit_code, files}")
    compare: Literal["exact", "lines", "unordered_lines", "json"] | _Numbers = Field(
        default="exact",
        description='"exact", "lines", "unordered_lines", "json" or {"numbers": tolerance}',
    )

    @model_validator(mode="after")
    def _is_possible(self) -> _Run:
        for path in (*self.files, *self.expected.files):
            plain = PurePosixPath(path)
            if str(plain) != path or plain.is_absolute() or not plain.parts or ".." in plain.parts:
                raise ValueError(f"{path!r} is not the name of a file in the workspace")
        texts = [*self.expected.files.values(), self.expected.stdout]
        for text in texts if self.compare == "json" else ():
            if text is not None:
                json.loads(text, parse_constant=_refuse_constant)
        return self


class _ProgramFile(_Model):
    command: list[str] = Field(
        min_length=1, description='the words of a command, ["python3", "tool.py"]'
    )
    checks: list[_Run] = Field(
        min_length=1, description="a list of at least one {name, arguments, expected}, names unique"
    )

    @field_validator("checks")
    @classmethod
    def _names_are_unique(cls, runs: list[_Run]) -> list[_Run]:
        _require_unique([run.name for run in runs])
        return runs


def parse_checks(text: bytes, file: str, beside: Mapping[str, bytes] | None = None) -> ChecksFile:
    """Reads a `checks.json`; ValueError has one sentence per malformed field.

    With `command` it describes a program, with `reference` a reference implementation, which is
    among the files `beside` it; else it holds checks on a function. Values are JSON, so expected
    tuples, sets and NaN cannot be written; a reference implementation can return the first two.
    """
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise ValueError(f"{file}: this is not JSON ({error}); correct the syntax there") from None
    model: type[_ProgramFile | _ReferenceFile | _FunctionFile] = _FunctionFile
    if isinstance(data, dict) and "command" in data:
        model = _ProgramFile
    elif isinstance(data, dict) and ("reference" in data or "inputs" in data):
        model = _ReferenceFile
    try:
        parsed = model.model_validate(data)
    except ValidationError as error:
        raise ValueError(explain(error, model, file)) from None
    if isinstance(parsed, _ProgramFile):
        return ProgramChecks(tuple(parsed.command), tuple(map(_program_check, parsed.checks)))
    if isinstance(parsed, _ReferenceFile):
        return _reference_checks(parsed, file, beside or {})
    checks = tuple(CheckSpec(e.name, tuple(e.arguments), e.expected) for e in parsed.checks)
    return FunctionChecks(parsed.module, parsed.function, checks)


def _program_check(run: _Run) -> ProgramCheck:
    numbers = run.compare if isinstance(run.compare, _Numbers) else None
    return ProgramCheck(
        run.name,
        tuple(run.arguments),
        run.stdin,
        run.files,
        run.expected.stdout,
        run.expected.exit_code,
        run.expected.files,
        "numbers" if isinstance(run.compare, _Numbers) else run.compare,
        numbers.numbers if numbers else 0.0,
    )


def _reference_checks(
    parsed: _ReferenceFile, file: str, beside: Mapping[str, bytes]
) -> ReferenceChecks:
    for key, name in (("reference", parsed.reference), ("inputs", parsed.inputs)):
        if name not in beside:
            raise ValueError(f"{file}: {key} = {name!r} names no file beside it; add the file")
    files = {path: data for path, data in beside.items() if path.endswith(".py")}
    return ReferenceChecks(
        parsed.module, parsed.function, parsed.reference, parsed.inputs, files, parsed.seed
    )


def dump_checks(checks: ChecksFile) -> str:
    """The text of a `checks.json` that `parse_checks` reads back to the same checks.

    ValueError where a value is none of JSON's (a tuple, a set, NaN) or a name is not allowed.
    """
    what = f"checks on {_subject(checks)}"
    try:
        text = _text(checks)
    except TypeError as error:
        raise ValueError(f"{what}: {error}; use JSON values") from None
    beside = checks.files if isinstance(checks, ReferenceChecks) else {}
    # repr tells 1 from True and a tuple from a list, which == or JSON would not.
    if repr(parse_checks(text.encode(), what, beside)) != repr(checks):
        raise ValueError(f"{what}: tuples have no JSON form; use lists")
    return text


def _subject(checks: ChecksFile) -> str:
    return " ".join(checks.command) if isinstance(checks, ProgramChecks) else checks.function


def _text(checks: ChecksFile) -> str:
    match checks:
        case ProgramChecks():
            head: dict[str, Any] = {"command": list(checks.command)}
            rows: list[Any] | None = [_run_row(check) for check in checks.checks]
        case FunctionChecks():
            head = {"module": checks.module, "function": checks.function}
            rows = [
                {"name": c.name, "arguments": list(c.arguments), "expected": c.expected}
                for c in checks.checks
            ]
        case ReferenceChecks():
            head = {key: getattr(checks, key) for key in _ReferenceFile.model_fields}
            rows = None
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    if rows is not None:
        body = ",\n    ".join(map(json.dumps, rows))
        lines.append(f'"checks": [\n    {body}\n  ]')
    return "{\n  " + ",\n  ".join(lines) + "\n}\n"


def _run_row(check: ProgramCheck) -> dict[str, Any]:
    expected = _Expected.model_construct(
        stdout=check.stdout, exit_code=check.exit_code, files=dict(check.expected_files)
    )
    row = {
        "name": check.name,
        "arguments": list(check.arguments),
        "stdin": check.stdin,
        "files": dict(check.files),
        "expected": expected.model_dump(exclude_defaults=True),
        "compare": {"numbers": check.tolerance}
        if check.comparison == "numbers"
        else check.comparison,
    }
    return {key: value for key, value in row.items() if value != _Run.model_fields[key].default}


def _require_unique(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"the name {name!r} occurs {count} times")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
