"""What is asked: an instruction, the files an agent finds, a verifier, held-out checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from steelyard.tasks.handover import Handover

DEFAULT_AGENT_TIMEOUT_SECONDS = 120.0
WORKING_DIRECTORY = "/app"
"""Where a task's files lie for its agent and its test script, unless its WORKDIR says otherwise."""


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """One call of the function under test and the value it must return.

    The value must be equal and of exactly the same type, all the way down (1 is not True and not
    1.0). `arguments` are JSON values.
    """

    name: str
    arguments: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True, slots=True)
class FunctionChecks:
    """Checks as data on one Python function: `module` is a file of the workspace.

    Graded out of process (tier A): the graded code never sees the expected values.
    """

    module: str
    function: str
    checks: tuple[CheckSpec, ...]


@dataclass(frozen=True, slots=True)
class ReferenceChecks:
    """Checks on one Python function by a reference implementation and a generator of inputs.

    `files` holds both, and what they import: the file `inputs` defines `inputs(seed)`, which gives
    a list of argument lists, and the file `reference` defines `function`. What the reference
    returns must be returned by the workspace's `module`, by exact type. The candidate never sees
    either file (tier A).
    """

    module: str
    function: str
    reference: str
    inputs: str
    files: Mapping[str, bytes]
    seed: int = 0


Comparison: TypeAlias = Literal["exact", "lines", "unordered_lines", "json", "numbers"]


@dataclass(frozen=True, slots=True)
class ProgramCheck:
    """One run of a command-line program, and what it must print and leave behind.

    `files` are laid in the workspace before the run. `stdout` and `expected_files` are compared as
    `comparison` says, `tolerance` being the largest difference of two "numbers"; None: any stdout.
    """

    name: str
    arguments: tuple[str, ...] = ()
    stdin: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    stdout: str | None = None
    exit_code: int = 0
    expected_files: Mapping[str, str] = field(default_factory=dict)
    comparison: Comparison = "exact"
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class ProgramChecks:
    """Checks as data on a command-line program: `command` is run in the workspace.

    Graded out of process (tier A): the program never sees what is expected of it.
    """

    command: tuple[str, ...]
    checks: tuple[ProgramCheck, ...]


@dataclass(frozen=True, slots=True)
class CheckProgram:
    """An author's source that defines `check(candidate)`, as in HumanEval.

    It runs in a sandbox of its own; `candidate` is a proxy that calls `function` of `module` in the
    candidate's sandbox with plain data as arguments.
    """

    module: str
    function: str
    source: str


RewardStyle: TypeAlias = Literal["steelyard", "trl", "verifiers"]


@dataclass(frozen=True, slots=True)
class RewardFunction:
    """A function of the Python file `path` that says what an answer is worth.

    The user's code, imported and called only inside a sandbox, never in the trainer. `row` holds
    the other columns of the task's JSONL line. `style` says how it is called:

    - "steelyard": `function(prompt=..., answer=..., **row) -> float`
    - "trl": `function(prompts=[...], completions=[...], **row as lists) -> list`
    - "verifiers": `function(completion, ...)`, given those of prompt, answer (the right one),
      info, task, state and the row that its parameters name

    The last two get text, or chat messages where the function reads those. All may be async.
    """

    path: Path
    function: str
    row: Mapping[str, Any]
    style: RewardStyle = "steelyard"


@dataclass(frozen=True, slots=True)
class TestScript:
    """A Harbor `tests/test.sh`: run in a fresh sandbox, it leaves a reward file.

    `files` is the content of the task's `tests/` directory, laid at /tests only then. `variables`
    are the script's own, beside those of the task's environment.
    """

    __test__ = False  # not a pytest class

    files: Mapping[str, bytes]
    variables: Mapping[str, str] = field(default_factory=dict)


ChecksFile: TypeAlias = FunctionChecks | ReferenceChecks | ProgramChecks
"""The verifiers that a `checks.json` describes."""

Verifier: TypeAlias = ChecksFile | CheckProgram | RewardFunction | TestScript


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """How the text of a single-turn answer becomes a file of the workspace.

    The first fenced code block of the answer, or else the whole answer, is written to `path`.
    With `prefix`, the answer follows it: as its continuation, or, where the answer defines
    `defines` itself, as a later definition that replaces the prefix's.
    """

    path: str
    prefix: str = ""
    defines: str = ""


@dataclass(frozen=True, slots=True)
class TaskStep:
    """One step of a multi-step task, which goes on in the workspace of the step before.

    `files` are laid over the workspace when it begins. A reward below one of `min_reward`, by its
    key ("reward" is the reward itself), ends the task.
    """

    name: str
    instruction: str
    verifier: Verifier
    files: Mapping[str, bytes] = field(default_factory=dict)
    solution: Mapping[str, bytes] | None = None
    min_reward: Mapping[str, float] = field(default_factory=dict)
    handover: Handover = field(default_factory=Handover)
    agent_timeout_seconds: float = DEFAULT_AGENT_TIMEOUT_SECONDS
    verifier_timeout_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Task:
    """One task. `files` is the workspace that the agent finds; nothing else of the task is in it.

    `answer` set means single-turn: no tools, the completion is the answer. `solution` holds the
    files that a reference solution would leave in the workspace. `kind` groups tasks in reports.
    Times are in seconds. `working_directory` is where the files lie for the agent's commands and
    for a test script (Harbor's WORKDIR). `environment_variables` are those that the task asks for;
    `packages` the Python requirements that its image installs. `handover` says what of the
    workspace is graded.

    With `steps`, `instruction` is that of the first, `verifier` that of the last, `files` hold
    those of the first too; the reward is the mean over the steps that were played, or the last's.
    """

    name: str
    instruction: str
    verifier: Verifier
    files: Mapping[str, bytes] = field(default_factory=dict)
    heldout: Verifier | None = None
    solution: Mapping[str, bytes] | None = None
    answer: AnswerForm | None = None
    kind: str = ""
    split: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    agent_timeout_seconds: float = DEFAULT_AGENT_TIMEOUT_SECONDS
    verifier_timeout_seconds: float = 60.0
    source: Path | None = None
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    handover: Handover = field(default_factory=Handover)
    steps: tuple[TaskStep, ...] = ()
    step_reward: Literal["mean", "final"] = "mean"
    working_directory: str = WORKING_DIRECTORY
