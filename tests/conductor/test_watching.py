"""Alarms in real runs: what each action leaves behind.

One group a step, so the third draw's task comes in step 3; the reward function fails on some of
that task's answers, which raises the alarm `unscored` there.
"""

import sqlite3

import pytest
from run_folder import RunFolder
from safetensors.numpy import load_file
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard.conductor import Paused, obeying, read_run_file, train, watching
from steelyard.conductor.checkpoints import prune
from steelyard.conductor.collect import next_draw
from steelyard.conductor.listener import NullListener
from steelyard.conductor.watching import checkpoints_kept, strongest, unheeded
from steelyard.curriculum import TaskOrder
from steelyard.monitor import view
from steelyard.monitor.alarms import Alarm, AlarmSettings
from steelyard.monitor.scanners import read_findings
from steelyard.monitor.significance import fisher_tail
from steelyard.store import RunDirectory, RunReader, RunStore

STEPS = 5


class Hears(NullListener):
    def __init__(self, path):
        self.path = path
        self.alarms, self.notes, self.told = [], [], []

    def alarm(self, alarm):
        self.alarms.append(alarm)

    def note(self, text):
        self.notes.append(text)

    def step(self, metrics):
        """A step is told of when all of its numbers are recorded: sinks read them then."""
        with RunReader(self.path) as reader:
            self.told.append(reader.steps("rl")[-1])


def spoil(folder):
    """The reward function that fails on a third of the answers to the third task drawn."""
    prompt = f"Say train {TaskOrder(['k0', 'k1'] * 2, 0).draw(2)}."
    folder.reward(
        f"if {prompt!r} in str(prompt) and len(answer) % 3 == 0:",
        "    raise RuntimeError('broken')",
        "return float(len(answer) % 2)",
    )


def run(folder, name, action, *changes, resume=False):
    settings = settings_of(folder, name, action, *changes)
    heard = Hears(settings.path)
    try:
        train(settings, heard, resume=resume)
    except Paused as pause:
        return RunDirectory(settings.path), heard.alarms, pause
    return RunDirectory(settings.path), heard.alarms, None


def settings_of(folder, name, action, *changes):
    return read_run_file(folder.run_file(name), changes_of(action, *changes))


def changes_of(action, *changes):
    return [
        f"rl.steps={STEPS}",
        "rl.groups_per_step=1",
        "rl.max_groups_per_step=1",
        "rl.episodes_per_group=8",
        "rl.learning_rate=1e-3",
        "evaluation.every_steps=1",
        f"alarms.on_alarm={action}",
        "alarms.unscored.tolerated=1e-6",
        *changes,
    ]


def weights(directory, step):
    tensors = load_file(directory.checkpoint(step) / "model.safetensors")
    return {name: tensor.tobytes() for name, tensor in tensors.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_model):
    """The folder, and a run that only warns."""
    folder = RunFolder(tmp_path_factory.mktemp("watched"), tiny_model)
    spoil(folder)
    return folder, *run(folder, "warned", "warn", "checkpoint.keep=9")


def test_an_alarm_warns_is_recorded_and_lets_the_run_go_on(made):
    _, directory, heard, pause = made
    assert pause is None
    assert [(a.name, a.step) for a in heard] == [("unscored", 3)]
    with RunReader(directory.path) as reader:
        (recorded,) = view(reader, "alarms")["alarms"]
        assert recorded["text"] == heard[0].text
        assert recorded["episodes"] == list(heard[0].episodes)
        lost = reader.episode_records(step=3, purpose="train")
        assert [r.id for r in lost if r.cause] == recorded["episodes"]
        assert view(reader, "summary")["state"] == "finished"
        steps = reader.steps("rl")
    assert [s.step for s in steps] == list(range(1, STEPS + 1))
    watching = sum(s.values["seconds_watching"] for s in steps)
    assert 0 < watching < sum(s.values["seconds_sampling"] for s in steps)


def test_a_paused_run_goes_on_where_it_stopped_and_is_not_paused_again(made):
    folder, warned, *_ = made
    directory, heard, pause = run(folder, "paused", "pause", "checkpoint.every_steps=4")
    assert "paused after step 3 by the alarm unscored" in str(pause)
    assert len(heard) == 1
    assert directory.checkpoint_steps()[-1] == 3, "not one of every four, but nothing is lost"
    with RunReader(directory.path) as reader:
        assert view(reader, "summary")["state"] == "interrupted"
        assert reader.events("interrupted")[-1].text == str(pause)
    _, heard, pause = run(folder, "paused", "pause", "checkpoint.every_steps=4", resume=True)
    assert (heard, pause) == ([], None)
    assert weights(directory, STEPS) == weights(warned, STEPS), "as if it had only warned"


def test_a_rollback_ends_the_run_with_the_last_good_checkpoint_and_keeps_the_history(made):
    folder, warned, *_ = made
    directory, (alarm,), pause = run(folder, "rolled", "rollback", "checkpoint.keep=9")
    assert pause is None
    with RunReader(directory.path) as reader:
        dev = {e.step: (e.tally.solved, e.tally.n) for e in reader.evaluations("dev")}
        best = max(dev[step] for step in range(4))
        good = max(step for step in range(3) if fisher_tail(*best, *dev[step]) > 0.05 / 3)
        final = next(e for e in reader.evaluations("test") if e.name == "final")
        assert final.step == good
        shown = view(reader, "alarms")
        assert [a["step"] for a in shown["alarms"]] == [3]
        assert (shown["rollbacks"][0]["from_step"], shown["rollbacks"][0]["to_step"]) == (3, good)
        assert reader.episode_records(ids=list(alarm.episodes)), "who raised it can be read"
        assert [s.step for s in reader.steps("rl")] == [1, 2, 3], "and nothing came after"
        assert view(reader, "summary")["state"] == "finished"
        events = len(reader.events())
    assert directory.checkpoint_steps()[-1] == good
    assert weights(directory, good) == weights(warned, good)
    run(folder, "rolled", "rollback", "checkpoint.keep=9", resume=True)
    with RunReader(directory.path) as reader:
        kinds = [e.kind for e in reader.events()[events:]]
        assert [e.step for e in reader.evaluations("test") if e.name == "final"] == [good]
    assert set(kinds) == {"resumed", "finished"}, "resumed, it is found to be finished"


def test_a_rollback_that_was_killed_half_way_is_carried_out(made):
    folder, warned, *_ = made
    directory, _, _ = run(folder, "killed", "pause", "checkpoint.keep=9")
    with RunStore.open(directory.path) as store:
        store.add_event("rollback", "rolled back", from_step=3, to_step=1, alarm="unscored")
    run(folder, "killed", "pause", "checkpoint.keep=9", resume=True)
    assert directory.checkpoint_steps() == [0, 1]
    assert weights(directory, 1) == weights(warned, 1)
    with RunReader(directory.path) as reader:
        assert [e.step for e in reader.evaluations("test") if e.name == "final"] == [1]
        assert [s.step for s in reader.steps("rl")] == [1, 2, 3]


class Killed(BaseException):
    """The process ends here."""


def killed(*_, **__):
    raise Killed


def test_a_rollback_outlives_a_kill_before_it_and_never_goes_back_to_what_raised_it(
    made, monkeypatch
):
    folder, warned, *_ = made
    changes = ["checkpoint.keep=1", "evaluation.every_steps=0"]
    with monkeypatch.context() as context:
        context.setattr(obeying, "roll_back", killed)
        with pytest.raises(Killed):
            run(folder, "back", "rollback", *changes)
    directory, (alarm,), _ = run(folder, "back", "rollback", *changes, resume=True)
    assert alarm.step == 3
    with RunReader(directory.path) as reader:
        assert [e.data["to_step"] for e in reader.events("rollback")] == [1]
        assert [s.step for s in reader.steps("rl")] == [1, 2, 3]
    assert directory.checkpoint_steps() == [1], "the newest but one was kept against keep=1"
    assert weights(directory, 1) == weights(warned, 1)


def test_an_alarm_that_was_recorded_and_saved_but_not_obeyed_is_obeyed_first(made, monkeypatch):
    folder, warned, *_ = made
    add_event = RunStore.add_event

    def until_paused(store, kind, *args, **data):
        if kind == "paused":
            raise Killed
        add_event(store, kind, *args, **data)

    with monkeypatch.context() as context:
        context.setattr(RunStore, "add_event", until_paused)
        with pytest.raises(Killed):
            run(folder, "late", "pause", "checkpoint.keep=9")
    directory, heard, pause = run(folder, "late", "pause", "checkpoint.keep=9", resume=True)
    assert "paused after step 3 by the alarm unscored" in str(pause)
    assert heard == [], "it was announced before"
    assert unheeded(directory.path, 3) is None
    with sqlite3.connect(directory.database) as connection:
        connection.execute("UPDATE events SET data = replace(data, '\"pause\"', '\"rollback\"')")
    connection.close()
    assert unheeded(directory.path, 3).action == "rollback"
    _, _, pause = run(folder, "late", "pause", "checkpoint.keep=9", resume=True)
    assert pause is None
    with RunReader(directory.path) as reader:
        (rollback,) = reader.events("rollback")
    good = rollback.data["to_step"]
    assert directory.checkpoint_steps()[-1] == good < 3
    assert weights(directory, good) == weights(warned, good)


def test_looking_that_fails_is_noted_once_and_the_run_goes_on(folder, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(watching, "check_alarms", broken)
    monkeypatch.setattr(watching, "scan_run", broken)
    settings = settings_of(folder, "blind", "warn", "rl.steps=2")
    heard = Hears(settings.path)
    train(settings, heard)
    notes = [text for text in heard.notes if "by zero" in text]
    assert notes == [
        "the episodes could not be scanned for shortcuts after the evaluation base:"
        " ZeroDivisionError: by zero; the run goes on",
        "the alarms could not be checked after step 1: ZeroDivisionError: by zero; the run goes on",
    ]
    with RunReader(settings.path) as reader:
        assert [e.text for e in reader.events("note") if e.text in notes] == notes
        steps = reader.steps("rl")
    assert len(steps) == 2
    assert heard.told == steps, "nothing is recorded of a step after it was told of"
    assert all({"seconds_watching", "seconds_scanning"} <= s.values.keys() for s in steps)


def test_every_episode_is_scanned_those_of_the_last_evaluation_too(finished):
    with RunReader(finished) as reader:
        recorded = reader.episode_keys()
        progress = read_findings(reader)[1]
        assert [e.name for e in reader.evaluations()][-1] == "final"
    assert {purpose for *_, purpose in recorded} == {"train", "eval"}
    assert (progress.scanned, progress.episode) == (len(recorded), recorded[-1][1])


def test_a_final_evaluation_that_a_kill_left_unscanned_is_scanned_on_resume(folder, monkeypatch):
    scan_run = watching.scan_run

    def until_the_end(reader, *args, **options):
        if any(e.name == "final" for e in reader.evaluations()):
            raise Killed
        return scan_run(reader, *args, **options)

    with monkeypatch.context() as context:
        context.setattr(watching, "scan_run", until_the_end)
        with pytest.raises(Killed):
            run(folder, "unscanned", "warn", "rl.steps=1")
    directory, *_ = run(folder, "unscanned", "warn", "rl.steps=1", resume=True)
    with RunReader(directory.path) as reader:
        recorded = reader.episode_keys()
        assert reader.events("finished")
        assert read_findings(reader)[1].episode == recorded[-1][1]


def test_a_rollback_keeps_an_older_checkpoint_beside_the_newest():
    assert checkpoints_kept(1, AlarmSettings(on_alarm="rollback")) == 2
    assert checkpoints_kept(3, AlarmSettings(on_alarm="rollback")) == 3
    assert checkpoints_kept(1, AlarmSettings(numerics={"on_alarm": "rollback"})) == 2
    assert checkpoints_kept(1, AlarmSettings()) == 1
    assert checkpoints_kept(1, AlarmSettings(on=False, on_alarm="rollback")) == 1


def test_a_quarantined_task_is_sampled_no_more_and_the_others_come_as_they_would(made):
    folder, warned, *_ = made
    directory, (alarm,), pause = run(folder, "apart", "quarantine", "rl.steps=8")
    assert pause is None
    (task,) = alarm.tasks
    with RunReader(directory.path) as reader, RunReader(warned.path) as other:
        groups, before = reader.groups(), {g.id: g.task for g in other.groups()}
    assert [g.step for g in groups if g.task == task] == [3]
    assert len(groups) == 8
    order = TaskOrder(["k0", "k1"] * 2, 0)
    assert {g.id: g.task for g in groups} == {
        g.id: f"train-{order.draw(int(g.id[1:]))}" for g in groups
    }
    assert all(before.get(g.id, g.task) == g.task for g in groups)
    assert groups[-1].id != "g7", "the turns of the quarantined task were passed over"
    with RunReader(directory.path) as reader:
        assert next_draw(g.id for g in reader.groups()) == int(groups[-1].id[1:]) + 1


def test_a_run_whose_tasks_are_all_quarantined_is_not_told_to_resume(folder):
    folder.reward("if len(answer) % 3 == 0:", "    raise RuntimeError('broken')", "return 1.0")
    path = folder.run_file("none-left")
    sets = [part for c in changes_of("quarantine", "rl.steps=12") for part in ("--set", c)]
    result = CliRunner().invoke(app, ["train", str(path), *sets])
    assert result.exit_code == 3
    assert "start another run" in result.output
    assert "--resume" not in result.output


def test_a_rollback_comes_before_a_pause_and_a_warning_decides_nothing():
    pause, back, warn = (Alarm("a", 1, "", action=a) for a in ("pause", "rollback", "warn"))
    assert strongest([warn, pause, back]) is back
    assert strongest([warn, pause]) is pause
    assert strongest([warn]) is None


def test_the_best_checkpoint_is_kept_beside_the_latest(tmp_path):
    directory = RunDirectory(tmp_path)
    for step in range(6):
        directory.checkpoint(step).mkdir(parents=True)
    prune(directory, 2, {1})
    assert directory.checkpoint_steps() == [1, 4, 5]
