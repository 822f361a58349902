"""Every row of the table trains in the main job; a run file changes every axis."""

import functools

import pytest
from run_folder import RunFolder
from safetensors.numpy import load_file

from steelyard.conductor import read_run_file, train
from steelyard.conductor.algorithm_section import AlgorithmSection
from steelyard.conductor.listener import NullListener
from steelyard.objective import ALGORITHMS
from steelyard.store import RunDirectory, RunReader

ROWS = sorted(name for name, row in ALGORITHMS.items() if not row.imitates)
SHORT = ["rl.steps=2", "evaluation.every_steps=0"]


def run(path, changes, *, resume=False, stop_after=None):
    settings = read_run_file(path, [*SHORT, *changes])
    listener = NullListener() if stop_after is None else _Stopping(stop_after)
    train(settings, listener, resume=resume)
    return settings.path


class _Stopping(NullListener):
    """Stops the run, as Ctrl-C would, after a step."""

    def __init__(self, step):
        self._step = step

    def step(self, report):
        if report.step == self._step:
            raise KeyboardInterrupt


def metrics(directory):
    with RunReader(directory) as reader:
        return [step.values for step in reader.steps("rl")]


def last_weights(directory, *files):
    folder = RunDirectory(directory)
    last = folder.checkpoint(folder.checkpoint_steps()[-1])
    return {
        f"{file}:{name}": tensor.tobytes()
        for file in files
        for name, tensor in load_file(last / file).items()
    }


@pytest.mark.parametrize("name", ROWS)
def test_every_row_trains(folder, tiny_model, other_model, name):
    changes = [f"algorithm.name={name}"]
    if ALGORITHMS[name].needs_teacher:
        changes.append(f"teacher.path={other_model}")
    directory = run(folder.run_file(name), changes)
    steps = metrics(directory)
    assert len(steps) == 2
    assert all(step["updated"] == 1 for step in steps)
    assert all(step["dropped_tokens"] == 0 for step in steps)
    before = load_file(tiny_model / "model.safetensors")
    after = load_file(RunDirectory(directory).checkpoint(2) / "model.safetensors")
    assert any((before[k] != after[k]).any() for k in before)


@pytest.fixture(scope="module")
def weights_under(tmp_path_factory, tiny_model):
    """The final weights of a run with some changes; each run once."""
    folder = RunFolder(tmp_path_factory.mktemp("plain"), tiny_model)

    @functools.cache
    def weights(*changes):
        path = folder.run_file(f"run-{len(list(folder.path.glob('*.toml')))}")
        return last_weights(run(path, changes), "model.safetensors")

    return weights


@pytest.mark.parametrize(
    ("axis", "beside"),
    [
        ("algorithm.kl.coefficient=0.1", []),
        ('algorithm.kl={estimator="full", coefficient=0.1}', []),
        ('algorithm.kl={estimator="k1_reward", coefficient=0.1}', []),
        ("algorithm.entropy=0.01", []),
        ("algorithm.covariance=kl_cov", ["rl.epochs=2"]),
        ('algorithm.correction={kind="mask", lowest_ratio=0.999}', []),
        ("algorithm.limit.high=0.0", ["rl.epochs=3"]),
        ("algorithm.ratio=prefix", ["rl.epochs=3"]),
        ("algorithm.name=gspo", ["rl.minibatches=2"]),
        ("algorithm.critic=head", ["algorithm.name=ppo"]),
        (
            "algorithm.critic.clip=0.001",
            ["algorithm.name=ppo", "rl.epochs=3", "learner.critic_learning_rate=1e-2"],
        ),
        ("algorithm.credit.level=turn", ["algorithm.name=ppo"]),
        ("shaping.overlong_buffer_tokens=48", ["agent.max_episode_tokens=64"]),
        ('algorithm.credit={baseline="leave_one_out", scale="none"}', []),
        ("algorithm.aggregate=sequence_mean", []),
    ],
)
def test_an_axis_is_changed_from_the_run_file(weights_under, axis, beside):
    """Against a run that differs in nothing else."""
    assert weights_under(axis, *beside) != weights_under(*beside)


def test_distillation_from_another_teacher_moves_towards_it(folder, other_model):
    changes = [
        "algorithm.name=opd",
        f"teacher.path={other_model}",
        "rl.steps=4",
        "rl.learning_rate=2e-2",
    ]
    rewards = [step["reverse_kl"] for step in metrics(run(folder.run_file("taught"), changes))]
    assert rewards[-1] < 0.8 * rewards[0]


@pytest.mark.parametrize(
    ("changes", "files"),
    [
        (["algorithm.name=grpo", "rl.task_order=signal"], ["model.safetensors"]),
        (["algorithm.name=ppo"], ["model.safetensors", "critic.safetensors"]),
    ],
)
def test_reference_critic_and_task_order_survive_an_interruption(folder, changes, files):
    whole = run(folder.run_file("whole"), changes)
    path = folder.run_file("cut")
    with pytest.raises(KeyboardInterrupt):
        run(path, changes, stop_after=2)
    cut = run(path, changes, resume=True)
    assert last_weights(cut, *files) == last_weights(whole, *files)


def test_a_resumed_run_draws_the_tasks_that_it_would_have_drawn(folder):
    changes = ["rl.task_order=signal", "rl.steps=6"]
    whole = run(folder.run_file("whole"), changes)
    path = folder.run_file("cut")
    with pytest.raises(KeyboardInterrupt):
        run(path, changes, stop_after=4)
    cut = run(path, changes, resume=True)
    drawn = []
    for directory in (whole, cut):
        with RunReader(directory) as reader:
            drawn.append([(g.step, g.id, g.task) for g in reader.groups()])
    assert drawn[0] == drawn[1]
    assert {step for step, *_ in drawn[0]} == set(range(1, 7))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"limit": {"hgih": 1}}, "algorithm.limit.hgih: unknown key; did you mean 'high'?"),
        ({"limit": "clipmin"}, "kind 'clipmin' is not known; did you mean 'clip_min'?"),
        ({"limit": {"low": 2}}, "clip bounds are distances from 1"),
        ({"ratio": "none"}, "a limit bounds a ratio"),
        ({"correction": {"highest_ratio": 0.5}}, "at least 1"),
        ({"name": "reinforce", "limit": {"high": 1}}, "name its kind"),
        ({"name": "opd", "correction": "truncate"}, "twice"),
        ({"credit": "gae"}, "no critic learns them"),
        ({"kl": {"coefficient": "much"}}, "algorithm.kl.coefficient"),
        ({"name": "ppo", "critic": {"clip": -1}}, "clip must be above 0"),
        ({"aggregate": "none"}, "a loss is always averaged"),
        ({"covariance": {"kind": "kl_cov", "fraction": 5}}, "must lie in (0, 1]"),
        ({"name": "reinforce", "credit": {"gamma": 7}}, "gamma must lie in [0, 1]"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(fields, sentence):
    with pytest.raises(ValueError, match="algorithm") as caught:
        AlgorithmSection(**fields)
    assert sentence in str(caught.value)


def test_an_episode_without_tokens_counts_in_a_group_and_has_no_value(folder):
    """Its prompt fills the context, so nothing is sampled and the outcome is 0."""
    lines = (folder.path / "prompts.jsonl").read_text().splitlines()
    longest = lines[0].replace("Say train 0.", "word " * 200)
    (folder.path / "prompts.jsonl").write_text("\n".join([longest, *lines[1:]]) + "\n")
    limits = ["agent.max_episode_tokens=160", "rl.dynamic_sampling=false"]
    for name in ("dr_grpo", "ppo"):
        steps = metrics(run(folder.run_file(name), [*limits, f"algorithm.name={name}"]))
        assert all(step["updated"] == 1 for step in steps)


def test_an_infinite_bound_survives_the_record(folder):
    changes = ['algorithm.correction={kind="truncate", highest_ratio=inf}']
    path = folder.run_file("decoupled")
    run(path, changes)
    run(path, changes, resume=True)


def test_a_changed_axis_keeps_the_rest_of_the_row():
    row = AlgorithmSection(name="dapo", limit={"high": 0.3}).build(640)
    assert (row.limit.low, row.limit.high) == (0.2, 0.3)
    assert row.credit == ALGORITHMS["dapo"].credit
    assert "limit" not in row.sources, "the number is the user's now"
    assert AlgorithmSection(name="dr_grpo").build(640).aggregate.length == 640
    assert AlgorithmSection(name="rloo", kl="none").build(640).kl is None
