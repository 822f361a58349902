from pathlib import Path

import pytest

from steelyard.conductor.settings import RunSettings, read_run_file

RUN_FILE = Path(__file__).parents[2] / "examples" / "falsy-defaults" / "run.toml"


def written(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_text(text)
    return path


def test_the_example_is_valid_and_its_tasks_are_found():
    settings = read_run_file(RUN_FILE)
    assert Path(settings.tasks.train).is_dir()
    assert settings.path == Path("runs/falsy-defaults")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[task]\n", "task: unknown key; did you mean 'tasks'?"),
        ('[tasks]\ntrain="t"\n[rl]\nlearing_rate=1\n', "did you mean 'learning_rate'?"),
        ('[tasks]\ntrain="t"\n[warm_start]\nepoch=1\n', "did you mean 'epochs'?"),
        ("[rl]\nsteps=1\n", "tasks: this key is required"),
        ('[tasks]\ntrain="t"\n[rl]\nsteps=-1\n', "rl.steps: Input should be greater than or equal"),
        ('[tasks]\ntrain="t"\n[rl]\nsteps="many"\n', "got 'many'"),
        ('[tasks]\ntrain="t"\n[rl]\nepisodes_per_group=1\n', "greater than or equal to 2"),
        ('[tasks]\ntrain="t"\n[algorithm]\nname="grpoo"\n', "'grpoo' is not known; choose one of"),
        (
            '[tasks]\ntrain="t"\n[algorithm]\nname="rloo"\nclip_low=0.1\n',
            "algorithm.clip_low: unknown key",
        ),
        ('[tasks]\ntrain="t"\n[run]\nname="a/b"\n', "run.name"),
        ("[tasks\n", "not valid TOML"),
        ('[tasks]\ntrain="t"\n[algorithm]\nname="sft"\n', "is imitation, which [warm_start] does"),
        ('[tasks]\ntrain="t"\n[engine]\ntemperature=0\n', "all episodes of a group are the same"),
        ('[tasks]\ntrain="t"\n[agent]\nmax_episode_tokens=9999\n', "exceeds engine.max_context"),
        ('[tasks]\ntrain="t"\n[rl]\nmax_groups_per_step=2\n', "rl.max_groups_per_step: 2 is less"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_key_and_fix(tmp_path, text, sentence):
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=r"run\.toml") as caught:
        read_run_file(path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_run_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="there is no such run file"):
        read_run_file(tmp_path / "run.toml")


def test_set_changes_typed_values_and_bare_words():
    settings = read_run_file(
        RUN_FILE, ["rl.steps=3", "run.name=demo", "rl.learning_rate=1e-4", "engine.threads=1"]
    )
    assert (settings.rl.steps, settings.run.name) == (3, "demo")
    assert (settings.rl.learning_rate, settings.engine.threads) == (1e-4, 1)


@pytest.mark.parametrize("change", ["rl.steps", "=3", "rl..x=1", "run.name.x=1"])
def test_a_malformed_change_is_refused(change):
    with pytest.raises(ValueError, match="--set"):
        read_run_file(RUN_FILE, [change])


def test_the_environment_never_changes_a_run(monkeypatch):
    monkeypatch.setenv("RL", '{"steps": 99}')
    monkeypatch.setenv("MODEL", '{"path": "x"}')
    assert read_run_file(RUN_FILE).rl.steps != 99


def test_deterministic_sets_all_that_it_needs():
    settings = read_run_file(RUN_FILE, ["run.deterministic=true"])
    assert settings.engine.deterministic
    assert settings.engine.dtype == settings.learner.dtype == "float32"
    assert settings.engine.threads is not None
    assert settings.learner.threads is not None
    assert settings.engine.lanes == settings.learner.lanes == 1
    assert RunSettings.model_validate(settings.model_dump(mode="json")) == settings
    for part in ("engine", "learner"):
        with pytest.raises(ValueError, match=rf"{part}.lanes = 2: .* needs one lane; leave it out"):
            read_run_file(RUN_FILE, ["run.deterministic=true", f"{part}.lanes=2"])
