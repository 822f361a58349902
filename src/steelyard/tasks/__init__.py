"""What is asked: tasks, the Harbor reader and writer, JSONL with a reward function, importers."""

from steelyard.tasks.collection import load_tasks
from steelyard.tasks.handover import Artifact, CollectHook, Handover
from steelyard.tasks.harbor import (
    TaskDirectory,
    TaskWarning,
    read_task,
    read_task_directory,
)
from steelyard.tasks.harbor_writing import write_task, write_task_directory
from steelyard.tasks.humaneval import read_humaneval
from steelyard.tasks.jsonl import read_jsonl
from steelyard.tasks.task import (
    AnswerForm,
    CheckProgram,
    CheckSpec,
    FunctionChecks,
    ProgramCheck,
    ProgramChecks,
    ReferenceChecks,
    RewardFunction,
    Task,
    TaskStep,
    TestScript,
    Verifier,
)

__all__ = [
    "AnswerForm",
    "Artifact",
    "CheckProgram",
    "CheckSpec",
    "CollectHook",
    "FunctionChecks",
    "Handover",
    "ProgramCheck",
    "ProgramChecks",
    "ReferenceChecks",
    "RewardFunction",
    "Task",
    "TaskDirectory",
    "TaskStep",
    "TaskWarning",
    "TestScript",
    "Verifier",
    "load_tasks",
    "read_humaneval",
    "read_jsonl",
    "read_task",
    "read_task_directory",
    "write_task",
    "write_task_directory",
]
