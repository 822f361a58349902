"""The run file: every room's settings composed into one typed schema."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from steelyard.agents import AgentSettings
from steelyard.conductor.algorithm_section import AlgorithmSection, hint
from steelyard.conductor.sinks import SinksSection
from steelyard.engines import EngineSettings
from steelyard.grading import ShapingSettings
from steelyard.learner import LearnerSettings
from steelyard.models import EMBEDDED
from steelyard.monitor.alarms import AlarmSettings
from steelyard.objective import GAE, Algorithm, GroupComparison, shaping_warning
from steelyard.sandbox import SandboxSettings


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RunSection(_Section):
    """`[run]`: which run this is."""

    name: str = Field("run", pattern=r"^[A-Za-z0-9._-]+$", description="folder under `directory`")
    directory: Path = Field(Path("runs"), description="where runs lie")
    seed: int = Field(0, ge=0, description="seeds sampling and task order")
    deterministic: bool = Field(
        False, description="bit-for-bit repeatable: lockstep turns, float32, fixed threads"
    )


class ModelSection(_Section):
    """`[model]`: the policy that training starts from."""

    path: str = Field(
        EMBEDDED, description="Hugging Face directory, hub id, .gguf file, or the embedded default"
    )


class TasksSection(_Section):
    """`[tasks]`: task directories, folders of them, or JSONL files; relative to the run file."""

    train: str = Field(description="tasks to train on")
    dev: str | None = Field(None, description="unseen tasks, evaluated during the run")
    test: str | None = Field(None, description="tasks for the headline numbers, run at the end")
    demonstrations: str | None = Field(None, description="tasks whose solutions are imitated")
    reward: str | None = Field(
        None, description="module:function or file.py:function, for JSONL tasks"
    )


class WarmStartSection(_Section):
    """`[warm_start]`: imitation of the demonstrations before RL. Absent: no warm start."""

    epochs: PositiveInt = 4
    learning_rate: PositiveFloat = 1.5e-4
    episodes_per_batch: PositiveInt = 8
    warmup_batches: int = Field(4, ge=0)
    final_learning_rate_fraction: float = Field(0.1, ge=0, le=1, description="linear decay to")
    run_checks: bool = Field(
        True, description="demonstrations run the visible checks before they hand in"
    )
    slip_fraction: float = Field(
        0.0,
        ge=0,
        le=1,
        description="of this share of the demonstrations those that can begin with an edit that "
        "changes nothing, made once or twice, and go on from its error; it is not imitated",
    )


class RLSection(_Section):
    """`[rl]`: the loop."""

    steps: int = Field(10, ge=0, description="batches learned from")
    groups_per_step: PositiveInt = Field(8, description="groups that an update learns from")
    episodes_per_group: Annotated[int, Field(ge=2)] = 8
    learning_rate: PositiveFloat = 5e-5
    warmup_steps: int = Field(0, ge=0)
    final_learning_rate_fraction: float = Field(1.0, ge=0, le=1, description="linear decay to")
    dynamic_sampling: bool | None = Field(
        None,
        description="learn only from mixed groups; sample more until the batch is full; default: "
        "where an all-equal group would teach nothing",
    )
    max_groups_per_step: PositiveInt | None = Field(
        None, description="bound on groups sampled for one update; default twice groups_per_step"
    )
    task_order: Literal["even", "signal"] = Field(
        "even",
        description="even: the kinds of tasks in turn; signal: a kind in proportion to the "
        "probability that its next group is mixed, by its outcomes so far",
    )
    epochs: PositiveInt = Field(1, description="passes over a batch")
    minibatches: PositiveInt = Field(1, description="optimiser steps a pass, on whole groups each")
    rehearsal_rate_fraction: float = Field(
        0.0,
        ge=0,
        description="after each update one step of imitation at this share of its learning rate: "
        "the references of the tasks that no episode solved, and demonstrations of the other kinds "
        "up to groups_per_step; 0: none",
    )
    staleness: Literal[0] = Field(0, description="policy versions a sample may lag; 0 is on-policy")

    @property
    def sampled_groups_limit(self) -> int:
        return self.max_groups_per_step or 2 * self.groups_per_step


class ReferenceSection(_Section):
    """`[reference]`: the fixed anchor of the KL penalty."""

    path: str | None = Field(None, description="a model; default: the policy as RL begins")


class TeacherSection(_Section):
    """`[teacher]`: who is distilled from; it must share the policy's vocabulary."""

    path: str = Field(description="Hugging Face directory, hub id, .gguf file, or a run")


class EvaluationSection(_Section):
    """`[evaluation]`: how often and how much."""

    every_steps: int = Field(5, ge=0, description="dev evaluation every so many steps; 0: never")
    dev_samples: PositiveInt = Field(2, description="episodes per dev task")
    test_samples: PositiveInt = Field(4, description="episodes per test task at the end")
    baseline_samples: PositiveInt = Field(
        2, description="episodes per test task for the base model and after the warm start"
    )


class CheckpointSection(_Section):
    """`[checkpoint]`: what survives a crash."""

    every_steps: PositiveInt = Field(5, description="a checkpoint every so many RL steps")
    keep: PositiveInt = Field(
        2, description="how many of the latest to keep; the best by held-out checks stays too"
    )


class AgreementSection(_Section):
    """`[agreement]`: how far engine and learner may differ on freshly sampled tokens.

    Mean absolute difference of log-probs, measured at the first step; beyond it the run stops.
    """

    max_bfloat16: PositiveFloat = 0.05
    max_float32: PositiveFloat = 1e-3


class RunSettings(BaseSettings):
    """A run file. Environment variables never change a run."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    run: RunSection = RunSection()
    model: ModelSection = ModelSection()
    tasks: TasksSection
    warm_start: WarmStartSection | None = None
    rl: RLSection = RLSection()
    shaping: ShapingSettings = ShapingSettings()
    algorithm: AlgorithmSection = AlgorithmSection()
    reference: ReferenceSection = ReferenceSection()
    teacher: TeacherSection | None = None
    agent: AgentSettings = AgentSettings()
    engine: EngineSettings = EngineSettings()
    learner: LearnerSettings = LearnerSettings()
    sandbox: SandboxSettings = SandboxSettings()
    evaluation: EvaluationSection = EvaluationSection()
    checkpoint: CheckpointSection = CheckpointSection()
    agreement: AgreementSection = AgreementSection()
    alarms: AlarmSettings = AlarmSettings()
    sinks: SinksSection = SinksSection()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.run.directory / self.run.name

    @property
    def built_algorithm(self) -> Algorithm:
        """The algorithm with every axis resolved."""
        return self.algorithm.build(self.agent.max_episode_tokens)

    @property
    def samples_dynamically(self) -> bool:
        """Whether only mixed groups are learned from."""
        if self.rl.dynamic_sampling is not None:
            return self.rl.dynamic_sampling
        row = self.built_algorithm
        return isinstance(row.credit, GroupComparison) and row.learns_from_credit_alone


def read_run_file(path: Path, changes: Sequence[str] = ()) -> RunSettings:
    """Reads a run file and applies `--set section.key=value` changes.

    Task paths are taken relative to the run file and come out absolute.

    Raises:
        ValueError: one sentence that names the file, the key, the value and the fix.
    """
    if not path.is_file():
        raise ValueError(f"{path}: there is no such run file")
    try:
        table = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from None
    for change in changes:
        _apply(table, change)
    _absolute_tasks(table, path.resolve().parent)
    try:
        settings = RunSettings(**table)
        _require_trainable(settings)
    except ValidationError as error:
        raise ValueError(f"{path}: {_sentence(error)}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    try:
        return made_deterministic(settings)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _require_trainable(settings: RunSettings) -> None:
    """Refuses what would only fail at the first update.

    Raises:
        ValueError: names the keys that contradict each other.
    """
    row = settings.built_algorithm
    if row.imitates:
        raise ValueError(
            f"algorithm.name: {row.name!r} is imitation, which [warm_start] does; name an "
            "algorithm that learns from its own episodes"
        )
    if row.needs_teacher and settings.teacher is None:
        raise ValueError(
            f"algorithm.name: {row.name!r} learns from a teacher; name it in teacher.path"
        )
    row.require_fit(
        staleness=settings.rl.staleness,
        updates_per_batch=settings.rl.epochs * settings.rl.minibatches,
    )
    buffer = settings.shaping.overlong_buffer_tokens
    if buffer is not None and buffer > settings.agent.max_episode_tokens:
        raise ValueError(
            f"shaping.overlong_buffer_tokens: {buffer} exceeds agent.max_episode_tokens = "
            f"{settings.agent.max_episode_tokens}; lower it"
        )
    lowering = [k for k in ("overlong_buffer_tokens", "potential") if getattr(settings.shaping, k)]
    if lowering and row.divides_by_mean:
        raise ValueError(
            f"shaping.{lowering[0]}: rewards may fall below 0, and algorithm.credit.scale 'mean' "
            "divides by their mean; use scale 'std'"
        )
    if settings.shaping.potential and (problem := _potential_problem(row)):
        raise ValueError(f"shaping.potential: {problem}")
    if settings.engine.temperature <= 0:
        raise ValueError(
            "engine.temperature: 0 is greedy, so all episodes of a group are the same; use 1.0"
        )
    if settings.agent.max_episode_tokens > settings.engine.max_context_tokens:
        raise ValueError(
            f"agent.max_episode_tokens: {settings.agent.max_episode_tokens} exceeds "
            f"engine.max_context_tokens = {settings.engine.max_context_tokens}; raise the latter"
        )
    if settings.rl.sampled_groups_limit < settings.rl.groups_per_step:
        raise ValueError(
            f"rl.max_groups_per_step: {settings.rl.max_groups_per_step} is less than "
            f"rl.groups_per_step = {settings.rl.groups_per_step}; raise it"
        )


def _potential_problem(row: Algorithm) -> str:
    """Why this row cannot use rewards between turns, else empty."""
    rule = row.credit
    if isinstance(rule, GAE) and rule.level == "token" and rule.gamma < 1.0:
        return "it discounts by turns and credit.gamma by tokens; use gamma = 1 or level = 'turn'"
    if isinstance(rule, GAE) and rule.bootstrap_truncated:
        return (
            "the potential where an episode was cut is not known; switch credit.bootstrap_truncated"
            " off"
        )
    return shaping_warning(rule, getattr(rule, "gamma", 1.0))


def as_table(settings: RunSettings) -> dict[str, Any]:
    """The resolved run file as JSON values."""
    return settings.model_dump(mode="json")


def made_deterministic(settings: RunSettings) -> RunSettings:
    """Repeatability needs float32, lockstep, fixed threads and one lane; `run.deterministic` sets
    them all, and without it nothing changes.

    Raises:
        ValueError: more lanes are asked for.
    """
    if not settings.run.deterministic:
        return settings
    for name, lanes in (("engine", settings.engine.lanes), ("learner", settings.learner.lanes)):
        if (lanes or 1) > 1:
            raise ValueError(
                f"{name}.lanes = {lanes}: run.deterministic = true needs one lane; leave it out"
            )
    threads = os.cpu_count() or 1
    return settings.model_copy(
        update={
            "engine": settings.engine.model_copy(
                update={
                    "deterministic": True,
                    "dtype": "float32",
                    "threads": settings.engine.threads or threads,
                    "lanes": 1,
                }
            ),
            "learner": settings.learner.model_copy(
                update={
                    "dtype": "float32",
                    "threads": settings.learner.threads or threads,
                    "lanes": 1,
                }
            ),
        }
    )


def _apply(table: dict[str, Any], change: str) -> None:
    key, separator, text = change.partition("=")
    parts = key.strip().split(".")
    if not separator or not all(parts):
        raise ValueError(f"--set {change!r}: write section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ValueError(f"--set {change!r}: {part!r} is not a section")
    table[parts[-1]] = value


def _absolute_tasks(table: Mapping[str, Any], base: Path) -> None:
    tasks = table.get("tasks")
    if not isinstance(tasks, dict):
        return
    for key in ("train", "dev", "test", "demonstrations"):
        value = tasks.get(key)
        if isinstance(value, str) and (base / value).exists():
            tasks[key] = str(base / value)


def _sentence(error: ValidationError) -> str:
    """The first complaint, in words: where, what was given, what to write instead."""
    # A misspelt key often shows up as a missing one too; the spelling is what to mend.
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _known_keys(first["loc"][:-1])
        return f"{where}: unknown key; {hint(first['loc'][-1], known)}"
    if first["type"] == "missing":
        return f"{where}: this key is required"
    if first["type"] == "value_error":
        return str(first["msg"]).removeprefix("Value error, ")
    return f"{where}: {first['msg']}, got {first['input']!r}"


def _known_keys(location: Sequence[Any]) -> list[str]:
    fields = RunSettings.model_fields
    for part in location:
        annotation: Any = fields[str(part)].annotation
        options = [annotation, *getattr(annotation, "__args__", ())]
        section = next(o for o in options if isinstance(o, type) and issubclass(o, BaseModel))
        fields = section.model_fields
    return sorted(fields)
