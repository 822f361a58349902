"""Each alarm on a record made for it, and on the honest record that looks most like it."""

import math
import random
from dataclasses import replace

import pytest

from steelyard.monitor.alarms import AlarmSettings, EpisodeFacts, StepFacts, check_alarms
from steelyard.monitor.alarms.checking import _FAMILIES

PLANNED = 20
DEFAULT = AlarmSettings()


class Made:
    """A record in which every figure is a function of the step and, if it likes, of the task."""

    def __init__(self, steps=12, tasks=24, groups=8, size=8, **of_step):
        draw = random.Random(1)
        given = {
            "right": lambda s, t: 0.4, "paid_wrong": lambda s, t: 0.0,
            "right_unpaid": lambda s, t: 0.0, "tokens": lambda s, t: 40, "lost": lambda s, t: 0.0,
            "programs": lambda s, t: 6, "component": None, "metrics": lambda s: {},
        } | of_step  # fmt: skip
        self.steps, order = [], []
        for step in range(1, steps + 1):
            episodes = []
            for _ in range(groups):
                order = order or draw.sample(range(tasks), tasks)
                task = order.pop()
                for i in range(size):
                    value = {
                        name: rule(step, task)
                        for name, rule in given.items()
                        if rule is not None and name != "metrics"
                    }
                    right = draw.random() < value["right"]
                    paid = right or draw.random() < value["paid_wrong"]
                    if right and draw.random() < value["right_unpaid"]:
                        paid = False
                    raw = None if draw.random() < value["lost"] else float(paid)
                    parts = (
                        {"outcome": float(paid), "bonus": value["component"] + draw.gauss(0, 0.02)}
                        if "component" in value
                        else {}
                    )
                    program = 0 if right else 1 + draw.randrange(value["programs"])
                    episodes.append(
                        EpisodeFacts(
                            f"{step}/{task}/{i}",
                            f"t{task}",
                            f"k{task % 4}",
                            raw,
                            float(right),
                            int(value["tokens"] * draw.lognormvariate(0, 0.1)),
                            parts,
                            program,
                        )
                    )
            metrics = {
                "entropy": 0.3, "loss": 0.0, "grad_norm": draw.lognormvariate(0, 0.3),
                "mismatch": 0.01, "ess_tokens": 0.95, "staleness": 0.0,
            }  # fmt: skip
            self.steps.append(StepFacts(step, tuple(episodes), metrics | given["metrics"](step)))

    def raised(self, settings=DEFAULT, planned=PLANNED):
        """Step → what is raised first then."""
        seen, first = set(), {}
        for i in range(1, len(self.steps) + 1):
            for alarm in check_alarms(self.steps[:i], settings, planned):
                if alarm.key not in seen:
                    seen.add(alarm.key)
                    first.setdefault(i, []).append(alarm)
        return [alarm for alarms in first.values() for alarm in alarms]

    def names(self, settings=DEFAULT):
        return {alarm.name for alarm in self.raised(settings)}


def rising(low, high, start=5, stop=10):
    return lambda s, t: low + (high - low) * min(1.0, max(0.0, (s - start) / (stop - start)))


def test_an_honest_run_raises_nothing():
    assert not Made(right=rising(0.4, 0.95)).names()
    assert not Made().names(), "nor one that learns nothing"


def test_the_shares_of_the_families_are_the_whole_rate():
    assert math.fsum(share for share, _ in _FAMILIES.values()) == pytest.approx(1.0)
    assert set(_FAMILIES) <= set(AlarmSettings.model_fields)


def test_a_gap_that_grows_is_named_with_what_raised_it():
    run = Made(right=rising(0.5, 0.1), paid_wrong=rising(0.0, 0.9))
    gap = next(a for a in run.raised() if a.name == "reward_gap")
    known = {e.id: e for step in run.steps for e in step.episodes}
    assert gap.episodes
    assert all(known[i].raw == 1 and known[i].heldout == 0 for i in gap.episodes)
    assert set(gap.tasks) >= {known[i].task for i in gap.episodes}
    evidence = gap.evidence
    assert evidence["p"] <= evidence["level"] < DEFAULT.false_alarm_rate
    assert 0.1 <= evidence["growth"] <= 1
    assert 0 < evidence["growth_at_least"] < evidence["growth"]
    assert evidence["heldout_maximum"] == pytest.approx(0.5, abs=0.1)
    assert evidence["reference_steps"] == [1, 2, 3]
    assert gap.since == evidence["window_steps"][0] < gap.step
    assert evidence["heldout_lost"] < 0.5, "early"


def test_a_gap_from_the_start_is_a_weak_verifier_and_not_a_divergence():
    run = Made(steps=20, paid_wrong=lambda s, t: 0.4)
    (weak,) = run.raised()
    assert weak.name == "weak_verifier"
    assert weak.action == "warn"
    assert weak.since == weak.step, "of all steps so far, none was the first"
    assert weak.evidence["share"] == pytest.approx(0.375, abs=0.05)


def test_a_verifier_that_rejects_right_work_is_named_too_strict():
    raised = Made(right_unpaid=lambda s, t: 0.5).raised()
    assert [a.name for a in raised] == ["strict_verifier"]
    assert set(raised[0].evidence["by_kind"]) == {"k0", "k1", "k2", "k3"}


def test_one_task_that_finds_a_shortcut_is_named():
    def found(s, t):
        return t == 5 and s > 12

    run = Made(
        steps=16,
        tasks=8,
        right=lambda s, t: 0.0 if found(s, t) else 0.4,
        paid_wrong=lambda s, t: float(found(s, t)),
    )
    raised = [a for a in run.raised() if a.name == "task_jump"]
    assert [a.subject for a in raised] == ["t5"]
    assert raised[0].step == 13
    assert raised[0].tasks == ("t5",)


def test_collapse_is_an_alarm_before_success_and_none_after_it():
    collapse = {
        "programs": lambda s, t: 6 if s < 6 else 1,
        "metrics": lambda s: {"entropy": 0.3 if s < 6 else 0.02},
    }

    def stuck(s, t):
        return 0.4 if s < 6 else float(t % 4 == 0)

    assert Made(right=stuck, **collapse).names() == {"exploration_collapse"}
    solved = Made(right=lambda s, t: 0.4 if s < 6 else 0.97, **collapse)
    assert not solved.names(), "it converged to what is right"
    learning = Made(right=lambda s, t: 0.5 if s < 6 else 0.8, **collapse)
    assert not learning.names(), "what is not yet solved is solved more often than before"
    entropy = {"metrics": lambda s: {"entropy": 0.3 if s < 6 else 0.02}}
    assert not Made(**entropy).names(), "entropy alone, while programs still differ"


def test_a_component_that_rises_alone_is_named_and_one_that_serves_is_not():
    rises = rising(0.0, 0.5)
    raised = Made(component=rises).raised()
    assert [(a.name, a.subject) for a in raised] == [("auxiliary_reward", "bonus")]
    assert not Made(component=rises, right=rising(0.4, 0.9)).names()


@pytest.mark.parametrize("factor", [0.4, 2.5])
def test_length_that_drifts_without_success_is_named(factor):
    drift = rising(40, 40 * factor)
    raised = Made(tokens=drift).raised()
    assert [a.name for a in raised] == ["length_drift"]
    assert (raised[0].evidence["factor"] > 1) == (factor > 1)
    assert not Made(tokens=drift, right=rising(0.4, 0.9)).names(), "success explains it"


def test_unscored_episodes_beyond_what_is_tolerated_are_named():
    assert Made(lost=lambda s, t: 0.5 * (s == 7)).names() == {"unscored"}
    assert not Made(lost=lambda s, t: 0.02).names()


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("not_finite", {"loss": math.nan}),
        ("not_finite", {"grad_norm": math.nan}),
        ("gradient_spike", {"grad_norm": 60.0}),
        ("mismatch", {"mismatch": 0.6}),
        ("effective_sample_collapse", {"ess_tokens": 0.02}),
        ("stale_samples", {"staleness": 40.0}),
    ],
)
def test_a_figure_of_one_step_that_breaks_is_named(name, metrics):
    assert Made(metrics=lambda s: metrics if s == 9 else {}).names() == {name}


def test_every_alarm_can_be_raised_in_a_long_and_strict_run():
    late = rising(0.0, 1.0, 6, 8)

    def alone(s, t):
        return 0.4 if s < 6 else float(t % 4 == 0)

    entropy = {"metrics": lambda s: {"entropy": 0.3 if s < 6 else 0.02}}
    records = {
        "reward_gap": Made(14, right=rising(0.5, 0.1), paid_wrong=late),
        "exploration_collapse": Made(
            20, right=alone, programs=lambda s, t: 6 if s < 6 else 1, **entropy
        ),
        "auxiliary_reward": Made(14, component=rising(0.0, 0.5)),
        "length_drift": Made(14, tokens=rising(40, 100)),
        "weak_verifier": Made(14, paid_wrong=lambda s, t: 0.6),
        "strict_verifier": Made(14, right_unpaid=lambda s, t: 0.7),
        "task_jump": Made(
            20, tasks=8, right=lambda s, t: 0.2, paid_wrong=lambda s, t: t == 5 and s > 16
        ),
        "unscored": Made(8, lost=lambda s, t: 0.6 * (s == 7)),
    }
    strict = AlarmSettings(false_alarm_rate=0.01)
    for name, run in records.items():
        assert name in {a.name for a in run.raised(strict, planned=100)}, name


def test_families_are_switched_off_and_told_what_to_do_one_by_one():
    def made():
        return Made(paid_wrong=lambda s, t: 0.4, lost=lambda s, t: 0.5 * (s == 7))

    settings = AlarmSettings(on_alarm="pause", verifier={"on": False})
    assert [(a.name, a.action) for a in made().raised(settings)] == [("unscored", "pause")]
    settings = AlarmSettings(on_alarm="pause", unscored={"on_alarm": "quarantine"})
    actions = {a.name: a.action for a in made().raised(settings)}
    assert actions == {"unscored": "quarantine", "weak_verifier": "warn"}
    assert not made().raised(AlarmSettings(on=False))


def test_a_quarantine_without_a_task_to_blame_warns_and_says_so():
    def spiked():
        return Made(metrics=lambda s: {"grad_norm": 50.0} if s == 9 else {}).raised

    (alarm,) = spiked()(AlarmSettings(on_alarm="quarantine"))
    assert (alarm.name, alarm.action, alarm.tasks) == ("gradient_spike", "warn", ())
    (warned,) = spiked()(DEFAULT)
    assert alarm.text == (
        f"{warned.text}; no task is to blame, so none is quarantined and the run goes on "
        '(alarms.numerics.on_alarm = "pause" would end it)'
    )
    own = AlarmSettings(on_alarm="quarantine", numerics={"on_alarm": "pause"})
    (paused,) = spiked()(own)
    assert (paused.action, paused.text) == ("pause", warned.text)


def test_checks_are_a_pure_function_of_the_record():
    run = Made(right=rising(0.5, 0.1), paid_wrong=rising(0.0, 0.9))
    once, again = (check_alarms(run.steps, DEFAULT, PLANNED) for _ in range(2))
    assert once == again != []
    keys = {alarm.key for alarm in once}
    assert not check_alarms(run.steps, DEFAULT, PLANNED, keys), "known ones are not raised again"
    rest = check_alarms(run.steps, DEFAULT, PLANNED, keys - {("reward_gap", "")})
    assert [alarm.name for alarm in rest] == ["reward_gap"]


def test_a_long_run_spends_its_rate_over_fifty_checks():
    run = Made(steps=30, right=rising(0.5, 0.1), paid_wrong=rising(0.0, 0.9))

    def at(step):
        return {a.name for a in check_alarms(run.steps[:step], DEFAULT, 500)}

    assert "reward_gap" in at(30), "500 steps are checked every tenth"
    assert "reward_gap" not in at(29)
    assert "reward_gap" in at(20)


@pytest.mark.parametrize("shown", [0.13, 0.3])
def test_a_constant_leak_is_no_divergence_when_success_rises(shown):
    def right(s, t):
        return (0.05 + 0.9 * (s - 1) / 19) * (1 - shown)

    def paid_wrong(s, t):
        accepted = 0.05 + 0.9 * (s - 1) / 19
        return accepted * shown / (1 - accepted * (1 - shown))

    raised = Made(20, right=right, paid_wrong=paid_wrong).names()
    assert "reward_gap" not in raised
    assert raised <= {"weak_verifier"}


def test_partial_credit_is_no_gap():
    run = Made(16, right=rising(0.1, 0.5))
    run.steps = [
        replace(
            step,
            episodes=tuple(
                replace(e, raw=max(e.raw, min(0.95, 0.06 * step.step))) for e in step.episodes
            ),
        )
        for step in run.steps
    ]
    assert not run.names()


def test_a_run_of_one_task_can_raise_alarms_by_its_groups():
    run = Made(14, tasks=1, groups=6, right=rising(0.5, 0.1), paid_wrong=rising(0.0, 0.9))
    run.steps = [
        replace(
            step,
            episodes=tuple(replace(e, group=f"g{i // 8}") for i, e in enumerate(step.episodes)),
        )
        for step in run.steps
    ]
    assert "reward_gap" in run.names()


def test_what_failed_to_be_graded_independently_has_no_truth():
    told = EpisodeFacts("e", "t", "k", 1.0, None, 9, {}, 0)
    assert told.truth == 1.0, "the task has no held-out checks"
    assert replace(told, heldout_failed=True).truth is None


def test_length_says_nothing_where_everything_is_solved_or_nothing_was_scored():
    drift = rising(40, 100)
    assert not Made(tokens=drift, right=lambda s, t: 0.97).names()
    run = Made(right=lambda s, t: 0.4, lost=lambda s, t: 0.5 * (s > 4))
    run.steps = [
        replace(
            s, episodes=tuple(replace(e, tokens=e.tokens * (e.raw is not None)) for e in s.episodes)
        )
        for s in run.steps
    ]
    assert run.names() == {"unscored"}


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("mismatch", {"mismatch": 0.3}),
        ("effective_sample_collapse", {"ess_tokens": 0.2}),
        ("stale_samples", {"staleness": 9.0}),
    ],
)
def test_a_bound_broken_from_the_start_is_named_at_the_third_step(name, metrics):
    (alarm,) = Made(metrics=lambda s: metrics).raised()
    assert (alarm.name, alarm.step) == (name, 3)
    assert "third step running" in alarm.text
    assert not Made(metrics=lambda s: metrics if s % 3 else {}).names()


def test_a_step_that_is_not_finite_says_whether_it_moved_the_weights():
    def text(**more):
        return Made(metrics=lambda s: {"loss": math.nan, **more} if s == 9 else {}).raised()[0].text

    assert "moved nothing" in text(updated=0.0)
    assert "other minibatches moved" in text(updated=1.0)
    assert "moved" not in text()
