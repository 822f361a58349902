"""The store gives back what it was given, and loses nothing that a call had recorded."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from episode_strategies import episodes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.conductor.evaluation import tally
from steelyard.episodes import (
    Cause,
    Check,
    Episode,
    Group,
    Outcome,
    Scored,
    Segment,
    StopReason,
    ToolCall,
    Trajectory,
    Turn,
    Unscored,
)
from steelyard.store import (
    BASE_STEP,
    SCHEMA_VERSION,
    WARM_START_STEP,
    RunBusy,
    RunExists,
    RunNotFound,
    RunReader,
    RunStore,
    StoreFull,
    Tally,
    TokenFields,
    UnknownSchema,
)

SRC = Path(__file__).parents[2] / "src"


def made(
    name: str,
    outcome: Outcome,
    *,
    heldout: Outcome | None = None,
    program: bytes = b"pass",
    kind: str = "or",
) -> Episode:
    segment = Segment()
    segment.append_context([1, 2])
    segment.append_action([3, 4, 5], [-0.5, -0.25, -1.0], [0, 0, 1])
    turn = Turn(0, (2, 5), (5, 5), "fix", (ToolCall("submit", {}, "done"),))
    return Episode(
        id=name,
        task=f"task-{name.partition('/')[0]}",
        group=name.partition("/")[0],
        trajectory=Trajectory([segment], [turn]),
        outcome=outcome,
        stop_reason=StopReason.SUBMITTED,
        heldout=heldout,
        files={"settings.py": program},
        seconds={"sampling": 0.5},
        kind=kind,
    )


def made_group(name: str, rewards: list[float]) -> Group:
    members = [made(f"{name}/{i}", Scored(r)) for i, r in enumerate(rewards)]
    return Group(name, f"task-{name}", members)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "demo"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    trained=episodes("trained"),
    evaluated=episodes("evaluated"),
    seed=st.integers(0, 2**64 - 1),
)
def test_episode_round_trip(
    tmp_path_factory: pytest.TempPathFactory, trained: Episode, evaluated: Episode, seed: int
) -> None:
    run = tmp_path_factory.mktemp("run") / "r"
    with RunStore.start(run, {}) as store:
        store.add_group(1, Group("g", trained.task, [trained]), "train", True, seeds=[seed])
        store.add_evaluation("base", BASE_STEP, "dev", [evaluated])
    with RunReader(run) as reader:
        assert reader.episode("trained") == trained
        assert reader.episode("evaluated") == evaluated
        (record,) = reader.episode_records(purpose="train")
        assert record.seed == seed
        assert record.n_action_tokens == trained.trajectory.n_action_tokens


def test_a_lone_surrogate_in_what_the_policy_wrote_stops_nothing(run: Path) -> None:
    episode = made("g/0", Scored(0.0, (Check("none", False, "got '\ud800'"),)))
    with RunStore.start(run, {}) as store:
        store.add_group(1, Group("g", episode.task, [episode]), "train", True)
    with RunReader(run) as reader:
        outcome = reader.episode("g/0").outcome
    assert outcome == Scored(0.0, (Check("none", False, "got '\\ud800'"),))


def test_start_writes_the_configuration_twice_and_no_null(run: Path) -> None:
    import tomllib

    config = {"model": {"name": "tiny", "revision": None}, "rl": {"steps": 3}}
    RunStore.start(run, config, model="tiny", model_fingerprint="f00").close()
    assert tomllib.loads((run / "run.toml").read_text()) == {
        "model": {"name": "tiny"},
        "rl": {"steps": 3},
    }
    with RunReader(run) as reader:
        assert reader.config() == config
        meta = reader.meta()
    assert (meta["name"], meta["model"], meta["model_fingerprint"]) == ("demo", "tiny", "f00")


def test_metrics_are_replaced_by_name_and_missing_values_stay_missing(run: Path) -> None:
    with RunStore.start(run, {}) as store:
        store.add_metrics(1, "rl", {"entropy": 0.5, "loss": math.nan, "kl": None}, version=1)
        store.add_metrics(1, "rl", {"entropy": 0.25})
        store.add_metrics(2, "rl", {"entropy": 0.125}, version=2)
        store.add_metrics(1, "warm_start", {"loss": 3.0})
    with RunReader(run) as reader:
        assert reader.metric("entropy") == [(1, 0.25), (2, 0.125)]
        first, second = reader.steps("rl")
        assert (first.version, second.version) == (1, 2)
        assert set(first.values) == {"entropy", "loss", "kl"}
        assert math.isnan(first.values["loss"])
        assert math.isnan(first.values["kl"])
        assert reader.metric("loss", "warm_start") == [(1, 3.0)]


def test_unknown_verdicts_leave_the_tally_and_are_counted(run: Path) -> None:
    lost = Unscored(Cause.SANDBOX_FAILURE, "died")
    results: list[tuple[Outcome, Outcome | None]] = [
        (Scored(1.0), None),
        (Scored(1.0), Scored(1.0)),
        (Scored(1.0), Scored(0.0)),  # right by the verifier, wrong by the held-out checks
        (Scored(0.0), Scored(1.0)),
        (Scored(0.0), lost),  # left out as the next is: what is missing is missing at random
        (Scored(1.0), lost),  # unknown
        (lost, None),  # unknown
    ]
    members = [made(f"t/{i}", o, heldout=h) for i, (o, h) in enumerate(results)]
    assert tally(members) == Tally(solved=2, n=4, unscored=3)
    assert [m.solved for m in members] == [True, True, False, False, None, None, None]
    with RunStore.start(run, {}) as store:
        store.add_evaluation("final", 3, "test", members, seconds=2.5)
    with RunReader(run) as reader:
        (evaluation,) = reader.evaluations("test")
        assert evaluation.tally == Tally(solved=2, n=4, unscored=3)
        assert evaluation.seconds == 2.5
        assert reader.tallies("final", "test", "kind") == {"or": Tally(2, 4, 3)}
        assert reader.evaluations("dev") == []
        record = reader.episode_records(ids=["t/6"])[0]
        assert (record.reward, record.cause, record.solved) == (None, "sandbox_failure", None)


def test_groups_keep_verdict_use_rewards_and_distinct_programs(run: Path) -> None:
    lost = Unscored(Cause.VERIFIER_ERROR)
    mixed = Group(
        "m",
        "task-m",
        [
            made("m/0", Scored(1.0), program=b"a"),
            made("m/1", Scored(0.0), program=b"b"),
            made("m/2", lost, program=b"b"),
        ],
    )
    with RunStore.start(run, {}) as store:
        store.add_group(1, mixed, "train", True)
        store.add_group(1, made_group("f", [0.0, 0.0]), "train", False)
        store.add_group(2, made_group("p", [1.0, 1.0]), "train", False)
    with RunReader(run) as reader:
        assert reader.group_verdicts() == {
            1: {"mixed": 1, "all_pass": 0, "all_fail": 1, "unscored": 0},
            2: {"mixed": 0, "all_pass": 1, "all_fail": 0, "unscored": 0},
        }
        first, second = reader.groups(step=1)
        assert (first.rewards, first.distinct_files, first.used) == ((1.0, 0.0, None), 2, True)
        assert (second.verdict, second.used) == ("all_fail", False)
        found = reader.training_rewards()[1]
        assert found.raw == 0.25  # one of four scored; the unscored one is not a zero
        assert found.tally == Tally(1, 4, 1)


def test_token_fields_are_one_value_per_action_token(run: Path) -> None:
    with RunStore.start(run, {}) as store:
        store.add_group(1, made_group("g", [1.0, 0.0]), "train", True)
        store.set_token_fields(
            [
                TokenFields("g/0", 0, prox_logp=np.array([-1.0, -2.0, -3.0])),
                TokenFields("g/0", 0, advantage=[0.5] * 3, limited=[True, False, True]),
                TokenFields("g/0", 0, entropy=[0.5, math.nan, 0.25], log_ratio=[0.0, 0.5, -0.5]),
            ]
        )
        good = TokenFields("g/1", 0, prox_logp=[0.0] * 3)
        with pytest.raises(ValueError, match="5 values for 3 action tokens"):
            store.set_token_fields([good, TokenFields("g/1", 0, advantage=[0.0] * 5)])
        with pytest.raises(ValueError, match="no segment 1 of episode 'g/0'"):
            store.set_token_fields([good, TokenFields("g/0", 1, advantage=[0.0])])
    with RunReader(run) as reader:
        fields = reader.token_fields("g/0", 0)
        assert fields["prox_logp"].tolist() == [-1.0, -2.0, -3.0]
        assert fields["advantage"].tolist() == [0.5, 0.5, 0.5]
        assert fields["limited"].tolist() == [True, False, True]
        assert fields["log_ratio"].tolist() == [0.0, 0.5, -0.5]
        assert math.isnan(fields["entropy"][1])
        assert reader.token_fields("g/1", 0) == {}


def test_truncation_forgets_what_came_after_and_lets_it_be_recorded_again(run: Path) -> None:
    def steps(store: RunStore, numbers: range) -> None:
        for step in numbers:
            store.add_group(step, made_group(f"g{step}", [1.0, 0.0]), "train", True)
            store.add_metrics(step, "rl", {"entropy": 1 / step})
            store.add_event("checkpoint", "saved", step=step)
            store.add_evaluation(f"step-{step}", step, "dev", [made(f"v{step}/0", Scored(1.0))])

    with RunStore.start(run, {}) as store:
        store.add_evaluation("base", BASE_STEP, "test", [made("b/0", Scored(0.0))])
        store.add_metrics(1, "warm_start", {"loss": 2.0})
        store.add_evaluation("warm_start", WARM_START_STEP, "test", [made("w/0", Scored(0.0))])
        steps(store, range(1, 5))
    with RunStore.open(run) as store:
        assert store.truncate_after(2) == 4
        steps(store, range(3, 6))
    with RunReader(run) as reader:
        consumed = [r.id for r in reader.episode_records(purpose="train")]
        assert consumed == [f"g{s}/{i}" for s in range(1, 6) for i in range(2)]
        assert [e.name for e in reader.evaluations()] == [
            "base", "warm_start", "step-1", "step-2", "step-3", "step-4", "step-5",
        ]  # fmt: skip
        assert [step for step, _ in reader.metric("entropy")] == [1, 2, 3, 4, 5]
        assert [e.step for e in reader.events("checkpoint")] == [1, 2, 3, 4, 5]
    with RunStore.open(run) as store:
        store.truncate_after(BASE_STEP)
    with RunReader(run) as reader:
        assert [e.name for e in reader.evaluations()] == ["base"]
        assert reader.steps("warm_start") == []
    leftovers = sqlite3.connect(run / "run.db")
    for table in ("checks", "turns", "segments"):
        (orphans,) = leftovers.execute(
            f"SELECT count(*) FROM {table} WHERE episode_key NOT IN (SELECT key FROM episodes)"
        ).fetchone()
        assert orphans == 0
    leftovers.close()


def test_a_failed_call_leaves_no_trace(run: Path) -> None:
    twice = made("same", Scored(1.0))
    with RunStore.start(run, {}) as store:
        with pytest.raises(sqlite3.IntegrityError):
            store.add_group(1, Group("g", "t", [twice, twice]), "train", True)
        store.add_evaluation("base", BASE_STEP, "dev", [made("b/0", Scored(1.0))])
        with pytest.raises(ValueError, match="'base' on split 'dev' is already recorded"):
            store.add_evaluation("base", BASE_STEP, "dev", [made("b/1", Scored(1.0))])
    with RunReader(run) as reader:
        assert reader.groups() == []
        assert [r.id for r in reader.episode_records()] == ["b/0"]


def test_one_writer_and_readers_that_see_a_live_run(run: Path) -> None:
    store = RunStore.start(run, {})
    with RunReader(run) as reader:
        assert reader.is_live()
        with reader.snapshot():
            before = reader.groups()
            store.add_group(1, made_group("g", [1.0, 0.0]), "train", True)
            assert reader.groups() == before == []
        assert [g.id for g in reader.groups()] == ["g"]
        with pytest.raises(RunBusy, match="being written by another process"):
            RunStore.open(run)
        store.finish("finished")
        assert not reader.is_live()
        assert [e.kind for e in reader.events()] == ["started", "finished"]
    with pytest.raises(RunExists, match="already holds a run"):
        RunStore.start(run, {})
    RunStore.open(run).close()


def test_missing_runs_and_foreign_files_are_named(run: Path) -> None:
    with pytest.raises(RunNotFound, match=r"no run at .*demo: it has no run\.db"):
        RunReader(run)
    with pytest.raises(RunNotFound, match="no run to continue"):
        RunStore.open(run)
    RunStore.start(run, {}).close()
    connection = sqlite3.connect(run / "run.db")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    for access in (RunReader, RunStore.open):
        with pytest.raises(UnknownSchema, match=f"has schema version {SCHEMA_VERSION + 1}"):
            access(run)
    (run / "run.db").write_bytes(b"this is not a database" * 100)
    for access in (RunReader, RunStore.open):
        with pytest.raises(UnknownSchema, match="cannot be read as a run database"):
            access(run)


def test_a_finished_run_can_be_read_where_nothing_can_be_written(run: Path) -> None:
    with RunStore.start(run, {}) as store:
        store.add_group(1, made_group("g", [1.0, 0.0]), "train", True)
    # Root may write anywhere, so permissions prove nothing: a read-only bind mount does.
    script = (
        "from steelyard.store import RunReader; import sys;"
        "print([g.id for g in RunReader(sys.argv[1]).groups()])"
    )
    done = subprocess.run(
        ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", sys.executable, "-c", script, str(run)],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "['g']", done.stderr


WRITER = textwrap.dedent(
    """
    import sys
    sys.path[:0] = sys.argv[2:]
    from test_run_store import made_group
    from steelyard.store import RunStore
    store = RunStore.start(sys.argv[1], {})
    step = 0
    while True:
        step += 1
        store.add_group(step, made_group(f"g{step}", [1.0, 0.0] * 4), "train", True)
        store.add_metrics(step, "rl", {"entropy": 1.0})
        print(step, flush=True)
    """
)


def writer(run: Path, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    paths = [str(SRC), str(Path(__file__).parent)]
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", WRITER, str(run), *paths],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("acknowledged", [1, 7, 25])
def test_kill_nine_loses_nothing_that_was_acknowledged(run: Path, acknowledged: int) -> None:
    with writer(run) as child:
        assert child.stdout is not None
        for _ in range(acknowledged):
            last = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        # What the child still said between the last line that we read and its death.
        last = max([last, *map(int, child.stdout.read().split())])
    with RunReader(run) as reader:
        assert not reader.is_live()
        recorded = [g.step for g in reader.groups()]
        # A prefix without holes: at most the groups of calls that never returned come on top.
        assert recorded == list(range(1, len(recorded) + 1))
        assert last <= len(recorded) <= last + 1
        per_group = [len(reader.episode_records(group=g.id)) for g in reader.groups()]
        assert set(per_group) == {8}
        assert reader.episode(f"g{last}/7") == made_group(f"g{last}", [1.0, 0.0] * 4).episodes[7]
    with RunStore.open(run) as store:
        store.truncate_after(0)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="a small disk needs bubblewrap")
def test_a_full_disk_is_one_sentence_and_the_record_before_it_is_intact(tmp_path: Path) -> None:
    script = WRITER.replace(
        "while True:",
        "from steelyard.store import StoreFull, RunReader\nwhile True:",
    )
    body = textwrap.indent(script, "    ")
    report = textwrap.dedent(
        """
        def write():
        BODY
        try:
            write()
        except Exception as error:
            from steelyard.store import RunReader
            with RunReader(sys.argv[1]) as reader:
                recorded = [g.step for g in reader.groups()]
            assert recorded == list(range(1, len(recorded) + 1)), recorded
            print(type(error).__name__, len(recorded), error)
        """
    ).replace("BODY", body)
    done = subprocess.run(
        [
            "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--size", str(1 << 20), "--tmpfs",
            str(tmp_path), sys.executable, "-c", "import sys\n" + report, str(tmp_path / "r"),
            str(SRC), str(Path(__file__).parent),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    *acknowledged, verdict = done.stdout.splitlines() or [done.stderr]
    name, recorded, sentence = verdict.split(" ", 2)
    assert name == StoreFull.__name__, done.stdout + done.stderr
    assert "the disk is full; what was recorded before is intact" in sentence
    assert int(recorded) >= int(acknowledged[-1])
