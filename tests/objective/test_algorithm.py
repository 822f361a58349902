"""The table of algorithms, and what cannot be combined."""

import dataclasses
import json

import pytest

from steelyard.objective import (
    ALGORITHMS,
    GAE,
    KINDS,
    KL,
    Algorithm,
    ClipMin,
    Correction,
    Critic,
    Distillation,
    Filter,
    GroupComparison,
    Imitation,
    KLCov,
    Mask,
    RewardToGo,
    StopGradientClip,
    TeacherLogRatio,
    Truncate,
    WideningWindow,
    algorithm,
    as_table,
)

FIELDS = {field.name for field in dataclasses.fields(Algorithm)}
AXES = FIELDS - {"name", "source", "sources"}
by_row = pytest.mark.parametrize("row", ALGORITHMS.values(), ids=lambda row: row.name)


@pytest.mark.parametrize(
    ("name", "credit", "ratio", "limit", "aggregate"),
    [
        ("reinforce", RewardToGo(), "none", None, "constant"),
        ("reinforce_baseline", RewardToGo(baseline="learned"), "none", None, "constant"),
        ("rest", Filter(), "none", None, "constant"),
        ("rloo", GroupComparison(baseline="leave_one_out"), "none", None, "constant"),
        ("ppo", GAE(1.0, 0.95), "token", ClipMin(0.2, 0.2), "token_mean"),
        ("grpo", GroupComparison(scale="std"), "token", ClipMin(0.2, 0.2), "sequence_mean"),
        ("dr_grpo", GroupComparison(), "token", ClipMin(0.2, 0.2), "constant"),
        ("dapo", GroupComparison(scale="std"), "token", ClipMin(0.2, 0.28), "token_mean"),
        ("maxrl", GroupComparison(scale="mean"), "token", ClipMin(0.2, 0.2), "token_mean"),
        ("cispo", GroupComparison(scale="std"), "token", StopGradientClip(5.0), "token_mean"),
        ("gspo", GroupComparison(scale="std"), "sequence", ClipMin(3e-4, 4e-4), "sequence_mean"),
        (
            "ctpo",
            GroupComparison(scale="std"),
            "prefix",
            WideningWindow(0.025, 0.05, 0.5),
            "sequence_mean",
        ),
        ("full_ratio", GroupComparison(), "full", Truncate(5.0), "constant"),
        ("sft", Imitation(), "none", None, "token_mean"),
        ("opd", TeacherLogRatio(), "token", None, "token_mean"),
    ],
)
def test_S6_what_a_name_stands_for(name, credit, ratio, limit, aggregate):
    row = ALGORITHMS[name]
    assert row.name == name
    assert (row.credit, row.ratio, row.limit) == (credit, ratio, limit)
    assert row.aggregate.kind == aggregate
    assert row.anchor == ("behaviour" if name == "opd" else "prox")


def test_S6_the_table_is_complete_and_says_who_needs_a_critic_or_a_reference():
    assert len(ALGORITHMS) == 15
    assert {n for n, row in ALGORITHMS.items() if row.critic} == {"reinforce_baseline", "ppo"}
    assert {n: row.kl for n, row in ALGORITHMS.items() if row.kl} == {
        "rloo": KL(0.03, "k1_reward"),
        "grpo": KL(0.04, "k3"),
    }
    assert {n for n, row in ALGORITHMS.items() if row.needs_reference} == {"rloo", "grpo"}
    assert {n for n, row in ALGORITHMS.items() if row.needs_teacher} == {"opd"}
    assert {n for n, row in ALGORITHMS.items() if row.imitates} == {"sft"}
    assert not any(row.needs_vocabulary for row in ALGORITHMS.values())


@by_row
def test_sources_name_axes_and_every_choice_has_one(row):
    """A choice is what is not the axis's default; where the weight comes from is always one."""
    assert set(row.sources) <= AXES
    assert row.source
    plain = Algorithm(name="plain", credit=RewardToGo())
    chosen = {a for a in AXES if getattr(row, a) != getattr(plain, a)}
    # OPD's anchor is told with its ratio.
    assert (chosen | {"credit", "aggregate"}) - {"anchor"} <= set(row.sources)
    assert all(row.sources.values())


@by_row
def test_a_row_is_json_and_its_kinds_lead_back_to_it(row):
    table = json.loads(json.dumps(as_table(row), allow_nan=False))
    assert set(table) == FIELDS
    for axis, kinds in KINDS.items():
        said = table[axis]
        if said is None:
            assert getattr(row, axis) is None
            continue
        kind = said.pop("kind") if len(kinds) > 1 else next(iter(kinds))
        assert kinds[kind](**said) == getattr(row, axis)


@by_row
def test_a_row_is_frozen(row):
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.ratio = "full"


def test_a_changed_row_leaves_the_table_as_it_is():
    changed = algorithm("grpo", limit=Mask())
    assert changed.limit == Mask()
    assert changed.credit is ALGORITHMS["grpo"].credit
    assert ALGORITHMS["grpo"].limit == ClipMin()


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="'grpoo' is not known; choose one of cispo, ctpo, dapo"):
        algorithm("grpoo")


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("grpo", {"ratio": "none"}, "a limit bounds a ratio"),
        ("sft", {"ratio": "token"}, "so no ratio exists; set ratio = 'none'"),
        ("sft", {"correction": Correction()}, "nothing to correct; drop correction"),
        ("opd", {"correction": Correction()}, "apply the same weight twice"),
        ("reinforce", {"anchor": "behaviour"}, "so nothing would be corrected"),
        ("ctpo", {"ratio": "sequence"}, "ratio 'sequence' is one number for the episode"),
        ("ctpo", {"ratio": "full"}, "use ratio = 'prefix'"),
        ("ppo", {"critic": None}, "no critic learns them"),
        ("reinforce_baseline", {"critic": None}, "no critic learns them"),
        ("grpo", {"critic": Critic()}, "a critic would be trained and not used"),
        ("reinforce", {"critic": Critic("head")}, "a critic would be trained and not used"),
        ("sft", {"kl": KL(0.1, "k1_reward")}, "which this credit does not read; set kl = 'k2'"),
        ("rest", {"kl": KL(0.1, "k1_reward")}, "which this credit does not read"),
        ("opd", {"kl": KL(0.1, "k1_reward")}, "which this credit does not read"),
        ("maxrl", {"kl": KL(0.1, "k1_reward")}, "makes rewards negative"),
        ("reinforce", {"kl": KL(0.1, "k3_ratio")}, "multiplies by the ratio, and ratio is 'none'"),
        ("reinforce", {"credit": None}, "neither credit nor distillation"),
        (
            "opd",
            {"credit": None, "distillation": Distillation()},
            "a ratio or a correction weighs credit, and there is none",
        ),
        (
            "reinforce",
            {"credit": None, "distillation": Distillation(), "correction": Correction()},
            "a ratio or a correction weighs credit, and there is none",
        ),
        ("sft", {"covariance": KLCov()}, "credit, which does not vary here"),
        ("grpo", {"entropy": -0.1}, "entropy must be ≥ 0, got -0.1"),
    ],
)
def test_what_cannot_be_fails_when_it_is_built(name, changes, sentence):
    with pytest.raises(ValueError, match=sentence) as failure:
        algorithm(name, **changes)
    assert str(failure.value).startswith(f"algorithm {name!r}: ")


@pytest.mark.parametrize(
    ("name", "changes", "staleness", "updates", "sentence"),
    [
        ("grpo", {}, 2, 1, "samples may lag by 2 versions and nothing corrects for it"),
        ("reinforce", {}, 1, 1, "set algorithm.correction, or anchor = 'behaviour'"),
        ("reinforce", {}, 0, 3, "3 updates per batch make all but the first off-policy"),
        ("rloo", {}, 0, 2, "ratio 'none' is right only for fresh samples"),
        ("grpo", {"correction": Correction()}, 1, 4, "there are 4 updates; use 'recomputed'"),
    ],
)
def test_samples_whose_age_goes_uncorrected_are_refused(
    name, changes, staleness, updates, sentence
):
    row = algorithm(name, **changes)
    with pytest.raises(ValueError, match=sentence):
        row.require_fit(staleness=staleness, updates_per_batch=updates)


@pytest.mark.parametrize(
    ("row", "staleness", "updates"),
    [
        (ALGORITHMS["grpo"], 0, 4),
        (ALGORITHMS["sft"], 9, 9),
        (ALGORITHMS["opd"], 4, 4),
        (ALGORITHMS["rest"], 0, 4),
        (algorithm("grpo", correction=Correction()), 4, 1),
        (algorithm("grpo", correction=Correction(prox="recomputed")), 4, 4),
        (algorithm("grpo", correction=Correction(prox="interpolated")), 4, 4),
        (algorithm("grpo", anchor="behaviour"), 4, 4),
        (algorithm("reinforce", correction=Correction()), 1, 1),
        (Algorithm(name="teach", credit=None, distillation=Distillation()), 4, 4),
    ],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_samples_whose_age_is_corrected_are_accepted(row, staleness, updates):
    row.require_fit(staleness=staleness, updates_per_batch=updates)


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"entropy": 0.01}, {"needs_vocabulary"}),
        ({"kl": KL(0.1, "full")}, {"needs_vocabulary", "needs_reference"}),
        ({"kl": KL(0.1, "k2")}, {"needs_reference"}),
        ({"distillation": Distillation()}, {"needs_vocabulary", "needs_teacher"}),
        ({}, set()),
    ],
)
def test_what_an_algorithm_needs(changes, needs):
    row = algorithm("dapo", **changes)
    names = ("needs_vocabulary", "needs_reference", "needs_teacher", "imitates")
    assert {n for n in names if getattr(row, n)} == needs
