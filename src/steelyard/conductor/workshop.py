"""What every kind of run needs: model, engine, grader, and the rollouts made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from steelyard.agents import AgentSettings
from steelyard.conductor.rollouts import NO_SHAPING, Rollouts
from steelyard.engines import EngineSettings, TorchEngine
from steelyard.grading import Grader, ShapingSettings
from steelyard.models import ChatRenderer, LoadedModel
from steelyard.sandbox import SandboxPool, SandboxSettings
from steelyard.tasks import Task, load_tasks


class Workshop:
    """Opens engine and grader for one model; `rollouts` runs episodes of `tasks` with them."""

    def __init__(
        self,
        model: LoadedModel,
        *,
        agent: AgentSettings,
        engine: EngineSettings,
        sandbox: SandboxSettings,
        tasks: Iterable[Task],
        shaping: ShapingSettings = NO_SHAPING,
    ) -> None:
        self.model = model
        self.renderer = ChatRenderer(model.tokenizer)
        self.engine = TorchEngine(model, engine)
        self.grader = Grader()
        self.sandboxes = SandboxPool(sandbox_for(tasks, sandbox))
        self.rollouts = Rollouts(
            self.engine,
            self.grader,
            self.renderer,
            model.stop_ids,
            self.sandboxes,
            agent,
            concurrency=engine.max_rows,
            lockstep=engine.deterministic,
            shaping=shaping,
        )

    def encode(self, text: str) -> list[int]:
        """The ids of plain text, as demonstrations need them."""
        return list(self.model.tokenizer(text, add_special_tokens=False).input_ids)

    def close(self) -> None:
        """Ends engine, grader and their threads and processes."""
        self.rollouts.close()
        self.engine.close()
        self.grader.close()
        self.sandboxes.close()


def sandbox_for(tasks: Iterable[Task], settings: SandboxSettings) -> SandboxSettings:
    """The settings of the agents' sandboxes: with Python packages if any task installs some."""
    if settings.packages or not any(task.packages for task in tasks):
        return settings
    return settings.model_copy(update={"packages": True})


def tasks_of_split(spec: str, split: str, reward: str | None) -> list[Task]:
    """The tasks of `spec` for one key of `[tasks]`.

    A collection that names splits gives only those of this one, so that one JSONL file can serve
    train, dev and test.
    """
    tasks = load_tasks(spec, reward=reward)
    named: Sequence[Task] = [task for task in tasks if task.split]
    if not named or (Path(spec).is_dir() and {task.split for task in tasks} == {tasks[0].split}):
        return tasks
    chosen = [task for task in tasks if task.split == split]
    if not chosen:
        splits = ", ".join(sorted({task.split for task in named}))
        raise ValueError(f"tasks.{split}: {spec} has no task in split {split!r}, only in: {splits}")
    return chosen
