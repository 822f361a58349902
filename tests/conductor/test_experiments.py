"""`diagnose_task`: what is graded and played decides, with real graders, sandboxes and models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from run_folder import RunFolder

from steelyard.conductor import diagnose_task, read_run_file
from steelyard.conductor.listener import NullListener
from steelyard.conductor.settings import as_table
from steelyard.conductor.verdicts import Graded, Played, judge
from steelyard.episodes import Check, Scored, StopReason
from steelyard.monitor import view
from steelyard.monitor.symptoms import Attempt
from steelyard.store import RunReader, RunStore
from steelyard.tasks import CheckSpec, FunctionChecks, Task, write_task

WRONG = b"def double(x):\n    return x\n"
RIGHT = b"def double(x):\n    return 2 * x\n"


@pytest.fixture(scope="session")
def silent_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whatever it samples ends its turn, so that every answer is empty."""
    from transformers import AutoConfig, GenerationConfig

    directory = tmp_path_factory.mktemp("silent") / "model"
    shutil.copytree(tiny_model, directory)
    vocabulary = AutoConfig.from_pretrained(directory).vocab_size
    GenerationConfig(eos_token_id=list(range(vocabulary))).save_pretrained(directory)
    return directory


def begun(folder: RunFolder, *changes: str) -> Path:
    """A run that has its record and nothing in it: no step was made, no checkpoint kept."""
    settings = read_run_file(folder.run_file("begun"), changes)
    with RunStore.start(settings.path, as_table(settings), model="tiny"):
        pass
    return settings.path


def doubling(folder: RunFolder, training: int, heldout: int, files: bytes = WRONG) -> Path:
    """A run on one task, `double`, whose two suites expect these values of double(2)."""

    def suite(expected: int) -> FunctionChecks:
        return FunctionChecks("m.py", "double", (CheckSpec("two", (2,), expected),))

    task = Task(
        name="double", instruction="Mend double.", verifier=suite(training),
        heldout=suite(heldout), files={"m.py": files}, solution={"m.py": RIGHT}, kind="or",
    )  # fmt: skip
    write_task(task, folder.path / "tasks" / "double")
    changes = [f"tasks.{split}={folder.path / 'tasks'}" for split in ("train", "dev", "test")]
    return begun(folder, *changes)


def diagnosed(run: Path, task: str, *, samples: int = 8, policy: Path | None = None) -> dict:
    return diagnose_task(
        run, task, samples=samples, policy=None if policy is None else str(policy),
        listener=NullListener(),
    )  # fmt: skip


def test_a_verifier_that_refuses_its_reference(folder: RunFolder) -> None:
    run = doubling(folder, training=5, heldout=4)
    found = diagnosed(run, "double")
    assert (found["verdict"], found["certainty"]) == ("verifier_rejects_right_work", "shown")
    assert found["why"] == [
        "the verifier refuses the reference solution: reward 0; failed: two",
        "held-out checks accept it: reward 1",
    ]
    assert found["played"] == []  # nobody needs to play it
    assert found["graded"]["untouched"]["verifier"] == "reward 0; failed: two"
    assert json.loads((run / "experiments.jsonl").read_text()) == found


def test_a_reference_that_both_suites_refuse_may_be_wrong_itself(folder: RunFolder) -> None:
    found = diagnosed(doubling(folder, training=5, heldout=5), "double")
    assert "the reference itself may be wrong" in found["why"][1]


def test_untouched_files_that_are_paid(folder: RunFolder) -> None:
    found = diagnosed(doubling(folder, training=2, heldout=4), "double")
    assert (found["verdict"], found["certainty"]) == ("verifier_accepts_wrong_work", "shown")


def test_a_sound_task_that_the_policy_cannot_even_address(folder: RunFolder) -> None:
    """A random model writes no tool call: the record of the new episodes says so."""
    found = diagnosed(doubling(folder, training=4, heldout=4), "double", samples=4)
    assert found["verdict"] in ("unparsed", "truncated")
    assert found["graded"]["reference"] == {"verifier": "reward 1", "heldout": "reward 1"}
    (played,) = found["played"]
    assert (played["episodes"], played["paid"]) == (4, 0)
    assert played["low"] == 0.0 < played["high"] < 1.0


def test_more_samples_of_the_latest_checkpoint(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    found = diagnosed(run, "train-0", samples=12)
    (played,) = found["played"]
    assert played["model"] == str(run)  # its latest checkpoint, not the model it began with
    assert 0 < played["paid"] < played["scored"] == 12
    assert (found["verdict"], found["certainty"]) == ("seldom_solved", "shown")
    rate = played["paid"] / 12
    chance = 1 - rate**4 - (1 - rate) ** 4
    assert f"a group of 4 is mixed with probability {chance:.0%}" in found["why"][0]


def test_the_same_experiment_gives_the_same_episodes(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    first, second = (diagnosed(run, "train-0", samples=6)["played"] for _ in range(2))
    assert first == second


def test_identical_samples_and_another_policy_that_succeeds(
    tmp_path: Path, silent_model: Path, tiny_model: Path
) -> None:
    run = begun(RunFolder(tmp_path, silent_model))
    alone = diagnosed(run, "train-0")
    assert (alone["verdict"], alone["certainty"]) == ("no_exploration", "shown")
    assert alone["played"][0]["distinct_programs"] == 1
    found = diagnosed(run, "train-0", policy=tiny_model)
    assert (found["verdict"], found["certainty"]) == ("beyond_present_ability", "shown")
    own, other = found["played"]
    assert (own["paid"], other["model"]) == (0, str(tiny_model))
    assert found["why"][0] == (
        f"the other policy ({tiny_model}) solves it: {other['paid']} of {other['scored']}"
    )
    assert len((run / "experiments.jsonl").read_text().splitlines()) == 2
    with RunReader(run) as reader:
        assert len(view(reader, "diagnosis")["experiments"]) == 1  # the latest of the task


def test_without_a_reference_and_without_success_it_stays_open(folder: RunFolder) -> None:
    folder.reward("return 0.0")
    found = diagnosed(begun(folder), "train-0")
    assert (found["verdict"], found["certainty"]) == ("undecided", "open")


def test_a_verifier_that_fails_itself_is_an_error_and_no_zero(folder: RunFolder) -> None:
    folder.reward("raise RuntimeError('no answer key')")
    found = diagnosed(begun(folder), "train-0")
    assert (found["verdict"], found["certainty"]) == ("sandbox_or_verifier_error", "shown")
    assert "no answer key" in found["why"][0]


def test_what_is_missing_is_named(folder: RunFolder) -> None:
    run = begun(folder)
    with pytest.raises(ValueError, match="no task 'nobody'"):
        diagnosed(run, "nobody")
    with pytest.raises(ValueError, match="nowhere"):
        diagnosed(run, "train-0", samples=2, policy=folder.path / "nowhere")


def attempts(n: int, raw: float, heldout: float | None = None) -> list[Attempt]:
    return [Attempt(str(i), StopReason.SUBMITTED, raw, None, None, heldout) for i in range(n)]


def test_held_out_checks_that_accept_what_the_verifier_refuses() -> None:
    no = Graded(Scored(0.0, (Check("a", False),)), Scored(0.0))
    yes = Graded(Scored(1.0), Scored(1.0))

    def verdict(own: Sequence[Attempt], distinct: int) -> tuple[str, str]:
        found = judge({"untouched": no, "reference": yes}, [Played("own", "m", own, distinct)], 8)
        assert found is not None
        return found.verdict.value, found.certainty.value

    assert verdict(attempts(8, 0.0, 1.0), 8) == ("verifier_rejects_right_work", "likely")
    assert verdict(attempts(8, 0.0, 0.0), 8) == ("beyond_present_ability", "shown")
    assert verdict(attempts(8, 1.0, 1.0), 8) == ("mastered", "shown")
    assert verdict(attempts(8, 1.0, 0.0), 8) == ("verifier_accepts_wrong_work", "likely")
    assert judge({"untouched": no, "reference": yes}, [], 8) is None


def test_refused_attempts_of_all_policies_are_a_share_of_the_attempts_of_all() -> None:
    no, yes = (
        Graded(Scored(0.0, (Check("a", False),)), Scored(0.0)),
        Graded(Scored(1.0), Scored(1.0)),
    )

    def verdict(refused: int) -> str:
        """One of four own attempts was refused, and `refused` of eight of another policy."""
        own = [*attempts(1, 0.0, 1.0), *attempts(3, 0.0, 0.0)]
        other = [*attempts(refused, 0.0, 1.0), *attempts(8 - refused, 0.0, 0.0)]
        played = [Played("own", "m", own, 4), Played("other", "n", other, 8)]
        found = judge({"untouched": no, "reference": yes}, played, 8)
        assert found is not None
        return found.verdict.value

    assert verdict(refused=2) == "beyond_present_ability"  # 3 of 12
    assert verdict(refused=6) == "verifier_rejects_right_work"  # 7 of 12
