"""Finding tasks: order, splits, duplicates and clear refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.tasks import Task, TestScript, load_tasks, write_task


def make(directory: Path, name: str, split: str = "") -> None:
    write_task(Task(name, "Do it.", TestScript({"test.sh": b"exit 0\n"}), split=split), directory)


def test_a_folder_is_searched_in_path_order_and_split_by_folder(tmp_path: Path) -> None:
    make(tmp_path / "train/b", "b")
    make(tmp_path / "train/a", "a")
    make(tmp_path / "dev/c", "c", split="test")
    make(tmp_path / "top", "top")
    (tmp_path / ".git/x").mkdir(parents=True)
    (tmp_path / ".git/x/task.toml").write_text("broken")
    tasks = load_tasks(tmp_path)
    assert [(t.name, t.split) for t in tasks] == [
        ("c", "test"),
        ("top", ""),
        ("a", "train"),
        ("b", "train"),
    ]
    assert [t.name for t in load_tasks(str(tmp_path), "train")] == ["a", "b"]
    assert [t.name for t in load_tasks(tmp_path / "train/a")] == ["a"]


def test_a_wrong_split_names_the_right_ones(tmp_path: Path) -> None:
    make(tmp_path / "train/a", "a")
    with pytest.raises(ValueError, match="no task is in split 'tain'; the splits are: train"):
        load_tasks(tmp_path, "tain")


def test_duplicate_names_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "train/a", "same")
    make(tmp_path / "dev/b", "same")
    with pytest.raises(ValueError, match=r"the task name 'same' occurs twice, in .*dev/b and .*/a"):
        load_tasks(tmp_path)


def test_what_is_no_task_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"it holds no tasks; a task is a folder with a task.toml"):
        load_tasks(tmp_path)
    with pytest.raises(ValueError, match="there is no such file or folder; give a task directory"):
        load_tasks(tmp_path / "none")
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(ValueError, match=r"a.csv: this is not a .jsonl file"):
        load_tasks(tmp_path / "a.csv")
    (tmp_path / "half").mkdir()
    (tmp_path / "half/instruction.md").write_text("x")
    with pytest.raises(ValueError, match=r"half: it has an instruction.md but no task.toml"):
        load_tasks(tmp_path)
