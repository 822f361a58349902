"""The same batches through other trainers' losses and through ours: loss, gradient, or convention.

    python benchmarks/conformance.py             TRL's own code too, if the extra bench is installed
    python benchmarks/conformance.py --no-trl    only the formulas restated in numpy

Two kinds of peer:

- **TRL's own code.** A real `GRPOTrainer` with a tiny random Llama. Its config parsing, rollout
  padding and masks, reward collection, group advantages, log-probs, ratio, limit, KL and reduction
  run as they are. Ours is the scaffolding around them: `rollout_func` (TRL's hook) returns fixed
  token ids of ragged lengths with observation tokens among them, the reward function reads a
  table, the old and reference log-probs in the batch are replaced by the present ones plus noise
  of up to 0.3 (2.5 where a wide bound is to bind), and a subclass keeps the tensor of
  per-token log-probs so that its gradient can be read.
- **Formulas of other trainers**, restated in float64 numpy on padded rows with a mask, as those
  trainers hold them, from their published descriptions; their code is not run. A stop-gradient is
  the same array held fixed (`batch.logp`), and the gradient is a central difference of the loss.

A row either agrees to 1e-5 in loss and in the gradient with respect to the log-probs, or names the
convention that differs; then it must differ, and agree to 1e-5 once the convention is applied.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from steelyard.objective import (
    GAE,
    KL,
    Aggregate,
    Algorithm,
    ClipMin,
    Correction,
    Fixed,
    GroupComparison,
    Rewards,
    Runs,
    StopGradientClip,
    Tokens,
    Truncate,
    WideningWindow,
    algorithm,
    credit,
    gae,
    group_advantage,
    token_coefficients,
    token_loss,
    value_loss,
)

Array = npt.NDArray[np.float64]
TOLERANCE = 1e-5
GROUPS, GROUP_SIZE = 3, 4
MASKED = 9.0
"""Stands at every observation and padding position, so that a formula that reads one is wrong."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Episodes in padded rows: arrays [B, L], of which `reward`, `group` and `length` are [B].

    `action` marks sampled tokens; the rest up to `length` are observations, beyond it padding.
    Numbers are float32 values held in float64, so that both sides start from the same ones.
    """

    action: npt.NDArray[np.bool_]
    length: npt.NDArray[np.int64]
    logp: Array
    prox: Array
    behaviour: Array
    reference: Array
    value: Array
    reward: Array
    group: npt.NDArray[np.int64]

    def tokens(self) -> Tokens:
        """The action tokens, flat. A turn is a run of them between observations."""
        episode, place = np.nonzero(self.action)
        begins = np.ones(len(episode), bool)
        begins[1:] = (episode[1:] != episode[:-1]) | (place[1:] != place[:-1] + 1)
        owner = torch.from_numpy(episode)
        turn = torch.from_numpy(begins.cumsum() - 1)
        return Tokens(turn, owner, owner, torch.from_numpy(self.group)[owner])

    def rewards(self) -> Rewards:
        """The outcome after each episode's last turn."""
        tokens = self.tokens()
        episode_K = tokens.episode_T[Runs.of(tokens.turn_T).start_R]
        reward_K = torch.zeros(len(episode_K))
        reward_K[Runs.of(episode_K).last_R] = torch.from_numpy(self.reward).float()
        return Rewards(reward_K, episode_K, torch.from_numpy(self.group))

    def flat(self, padded: Array) -> torch.Tensor:
        """Of the action tokens: float32 [T]."""
        return torch.from_numpy(padded[self.action]).float()


def make_batch(seed: int) -> Batch:
    """Three groups of four; one to three turns, each of up to six tokens; partial credit.

    Old log-probs are off by up to 0.3; every ninth token by up to 2, so that each bound binds.
    """
    rng = np.random.default_rng(seed)
    masks = []
    for _ in range(GROUPS * GROUP_SIZE):
        turns = int(rng.integers(1, 4))
        mask = [True] * int(rng.integers(1, 7))
        for _ in range(turns - 1):
            mask += [False] * int(rng.integers(1, 5)) + [True] * int(rng.integers(1, 7))
        masks.append(mask)
    shape = (len(masks), max(map(len, masks)))
    action = np.zeros(shape, bool)
    for row, mask in zip(action, masks, strict=True):
        row[: len(mask)] = mask

    def rounded(array: Array) -> Array:
        return np.where(action, array, MASKED).astype(np.float32).astype(np.float64)

    def near(array: Array) -> Array:
        wide = rng.random(shape) < 1 / 9
        return array + np.where(wide, rng.uniform(-2, 2, shape), rng.uniform(-0.3, 0.3, shape))

    logp = rng.uniform(-3, -0.05, shape)
    prox = near(logp)
    reward = rng.choice([0.0, 0.25, 0.5, 0.75, 1.0], shape[0])
    reward[:GROUP_SIZE] = [1.0, 0.0, 0.0, 0.25]
    return Batch(
        action=action,
        length=np.array(list(map(len, masks))),
        logp=rounded(logp),
        prox=rounded(prox),
        behaviour=rounded(near(prox)),
        reference=rounded(near(logp)),
        value=rounded(rng.uniform(0, 1, shape)),
        reward=reward,
        group=np.repeat(np.arange(GROUPS), GROUP_SIZE),
    )


def ours(batch: Batch, row: Algorithm, kept_E: list[int] | None = None) -> tuple[float, Array]:
    """Our loss of the batch, and its gradient with respect to the log-probs: [B, L]."""
    if kept_E is not None:
        names = [f.name for f in dataclasses.fields(Batch)]
        batch = Batch(**{name: getattr(batch, name)[kept_E] for name in names})
    assert row.credit is not None
    logp_T = batch.flat(batch.logp).requires_grad_()
    given = credit(row.credit, batch.tokens(), batch.rewards())
    kept = given.index_A
    fixed = Fixed(
        tokens=batch.tokens().take(kept),
        advantage_T=given.advantage_A,
        behaviour_logp_T=batch.flat(batch.behaviour)[kept],
        prox_logp_T=batch.flat(batch.prox)[kept],
        reference_logp_T=batch.flat(batch.reference)[kept],
    )
    weight_T = token_coefficients(fixed.tokens, row.aggregate)
    loss = (weight_T * token_loss(logp_T[kept], fixed, row).value_T).sum()
    (gradient_T,) = torch.autograd.grad(loss, logp_T)
    gradient = np.zeros(batch.action.shape)
    gradient[batch.action] = gradient_T.numpy()
    return loss.item(), gradient


# Formulas of other trainers. Each takes the batch and log-probs that may differ from batch.logp.

Formula = Callable[[Batch, Array], float]


def group_scores(
    reward: Array, group: npt.NDArray[np.int64], epsilon: float | None = None
) -> Array:
    """Reward minus group mean, over the sample deviation plus epsilon unless that is None."""
    score = np.empty_like(reward)
    for g in np.unique(group):
        mine = reward[group == g]
        scale = 1.0 if epsilon is None else np.std(mine, ddof=1) + epsilon
        score[group == g] = (mine - mine.mean()) / scale
    return score


def _advantage(batch: Batch, epsilon: float | None = 1e-6) -> Array:
    return group_scores(batch.reward, batch.group, epsilon)[:, None]


def _token_mean(value: Array, batch: Batch) -> float:
    return float(value[batch.action].sum() / batch.action.sum())


def _sequence_mean(value: Array, batch: Batch) -> float:
    rows = zip(value, batch.action, strict=True)
    return float(np.mean([row[mask].mean() for row, mask in rows]))


def _pessimist(ratio: Array, advantage: Array, low: Array | float, high: Array | float) -> Array:
    return np.maximum(-ratio * advantage, -np.clip(ratio, low, high) * advantage)


def _ppo(batch: Batch, logp: Array) -> Array:
    return _pessimist(np.exp(logp - batch.prox), _advantage(batch), 0.8, 1.2)


def verl_ppo(batch: Batch, logp: Array) -> float:
    ratio = np.exp(np.clip(logp - batch.prox, -20, 20))
    advantage = _advantage(batch)
    loss = _pessimist(ratio, advantage, 0.8, 1.2)
    return _token_mean(np.where(advantage < 0, np.minimum(loss, -3 * advantage), loss), batch)


def verl_reinforce(batch: Batch, logp: Array) -> float:
    weight = np.minimum(np.exp(batch.logp - batch.behaviour), 2.0)
    loss = -_advantage(batch) * logp * weight
    return float(np.mean([r[m].sum() for r, m in zip(loss, batch.action, strict=True)]))


def _reinforce_constant(batch: Batch, logp: Array) -> float:
    return verl_reinforce(batch, batch.behaviour)


def verl_dr_grpo(batch: Batch, logp: Array) -> float:
    ratio = np.exp(logp - batch.prox)
    return float(_pessimist(ratio, _advantage(batch, None), 0.8, 1.2)[batch.action].sum() / 32)


def verl_cispo(batch: Batch, logp: Array) -> float:
    bounded = np.clip(np.exp(batch.logp - batch.prox), 1 - 1.0, 1 + 4.0)
    return _token_mean(-bounded * _advantage(batch) * logp, batch)


def _cispo_constant(batch: Batch, logp: Array) -> float:
    return verl_cispo(batch, batch.prox)


def verl_gspo(batch: Batch, logp: Array) -> float:
    log_s = np.zeros_like(logp)
    for i, mask in enumerate(batch.action):
        log_s[i] = (batch.logp - batch.prox)[i, mask].mean()
    ratio = np.exp(np.minimum(log_s + logp - batch.logp, 10.0))
    return _sequence_mean(_pessimist(ratio, _advantage(batch), 1 - 3e-4, 1 + 4e-4), batch)


def verl_k3_plus(batch: Batch, logp: Array) -> float:
    x, held = logp - batch.reference, batch.logp - batch.reference
    straight_through = (np.exp(-held) - 1 + held) + (x**2 - held**2) / 2
    return _token_mean(_ppo(batch, logp) + 0.001 * straight_through, batch)


def deepseek_k3(batch: Batch, logp: Array) -> float:
    x = logp - batch.reference
    weighted = np.exp(logp - batch.prox) * (np.exp(-x) - 1 + x)
    return _token_mean(_ppo(batch, logp) + 0.001 * weighted, batch)


def areal_decoupled(batch: Batch, logp: Array) -> float:
    return _token_mean(np.exp(batch.prox - batch.behaviour) * _ppo(batch, logp), batch)


def areal_capped(batch: Batch, logp: Array) -> float:
    weight = np.exp(batch.prox - batch.behaviour)
    return _token_mean(np.where(weight <= 3.0, weight, 0.0) * _ppo(batch, logp), batch)


def verl_tis(batch: Batch, logp: Array) -> float:
    weight = np.minimum(np.exp(batch.prox - batch.behaviour), 2.0)
    return _token_mean(weight * _ppo(batch, logp), batch)


def icepop(batch: Batch, logp: Array) -> float:
    k = np.exp(batch.prox - batch.behaviour)
    return _sequence_mean(np.where((k >= 0.5) & (k <= 5.0), k, 0.0) * _ppo(batch, logp), batch)


def _ctpo(batch: Batch, logp: Array, upper_for_negative: bool) -> Array:
    step = np.where(batch.action, np.clip(batch.logp - batch.prox, -20, 20), 0.0)
    ratio = np.exp(np.minimum(np.cumsum(step, 1) + logp - batch.logp, 10.0))
    root = np.sqrt(np.cumsum(batch.action, 1))
    high = np.exp(0.05 * root)
    advantage = _advantage(batch)
    loss = _pessimist(ratio, advantage, np.exp(-0.025 * root), high)
    if upper_for_negative:
        loss = np.where(advantage < 0, np.minimum(loss, -high * advantage), loss)
    return loss


def ctpo_code(batch: Batch, logp: Array) -> float:
    return _token_mean(_ctpo(batch, logp, True), batch)


def ctpo_paper(batch: Batch, logp: Array) -> float:
    return _sequence_mean(_ctpo(batch, logp, False), batch)


def _prime_outside(batch: Batch) -> npt.NDArray[np.bool_]:
    moved = np.exp(batch.logp) - np.exp(batch.behaviour)
    advantage = _advantage(batch, None)
    return np.where(advantage > 0, moved > 0.2, (advantage < 0) & (moved < -0.2))


def prime_rl(batch: Batch, logp: Array) -> float:
    log_r = logp - batch.behaviour
    gain = np.where(_prime_outside(batch), 0.0, np.exp(log_r) * _advantage(batch, None))
    return _token_mean(-gain + 1e-3 * log_r**2, batch)


def _prime_dropped(batch: Batch, logp: Array) -> float:
    gain = np.exp(logp - batch.behaviour) * _advantage(batch, None)
    return _token_mean(np.where(_prime_outside(batch), gain, 0.0), batch)


def tinker_sum(batch: Batch, logp: Array) -> float:
    return float((-np.exp(logp - batch.behaviour) * _advantage(batch, None))[batch.action].sum())


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer's loss and the row of ours that should be it: theirs = scale · ours + extra.

    Without a `convention`, scale is 1 and extra 0.
    """

    name: str
    what: str
    theirs: Formula
    row: Algorithm
    convention: str = ""
    scale: Callable[[Batch], float] = lambda batch: 1.0
    extra: Formula = lambda batch, logp: 0.0
    prepare: Callable[[Batch], Batch] = lambda batch: batch


_STD = GroupComparison(scale="std", epsilon=1e-6)
_PPO = Algorithm(name="ppo with group credit", credit=_STD, ratio="token", limit=ClipMin())
_SUM = Aggregate("constant", length=1)


def _ppo_with(**axes: Any) -> Algorithm:
    return dataclasses.replace(_PPO, **axes)


PEERS = (
    Peer("verl", "PPO with dual clip 3", verl_ppo, _ppo_with(limit=ClipMin(dual=3.0))),
    Peer(
        "verl",
        "Dr.GRPO, L = 32",
        verl_dr_grpo,
        algorithm("dr_grpo", aggregate=Aggregate("constant", length=32)),
        "verl divides the sum by L only, we (and TRL) by episodes · L",
        scale=lambda batch: len(batch.reward),
    ),
    Peer(
        "verl",
        "CISPO, ε 1.0 and 4.0",
        verl_cispo,
        _ppo_with(limit=StopGradientClip(5.0)),
        "their value has log π where ours has log ρ, and their bound is 1 + ε where ours is the "
        "ratio itself; the gradient is the same",
        extra=_cispo_constant,
    ),
    Peer("verl", "GSPO in token form", verl_gspo, algorithm("gspo", credit=_STD)),
    Peer(
        "verl",
        "REINFORCE, weight truncated at 2",
        verl_reinforce,
        _ppo_with(limit=Truncate(2.0), anchor="behaviour", aggregate=_SUM),
        "their value has log π where ours has log ρ; the gradient is the same",
        extra=_reinforce_constant,
    ),
    Peer("verl", "k3 value with k2 gradient", verl_k3_plus, _ppo_with(kl=KL(0.001, "k3_k2"))),
    Peer("DeepSeek-V3.2", "ρ · k3", deepseek_k3, _ppo_with(kl=KL(0.001, "k3_ratio"))),
    Peer("verl", "TIS at 2", verl_tis, _ppo_with(correction=Correction(highest_ratio=2.0))),
    Peer(
        "AReaL",
        "decoupled PPO",
        areal_decoupled,
        _ppo_with(correction=Correction(highest_ratio=float("inf"))),
    ),
    Peer(
        "AReaL",
        "decoupled PPO, weights above 3 masked",
        areal_capped,
        _ppo_with(correction=Correction("mask", highest_ratio=3.0)),
    ),
    Peer(
        "IcePop",
        "GRPO masked outside [.5, 5]",
        icepop,
        _ppo_with(
            correction=Correction("mask", highest_ratio=5.0, lowest_ratio=0.5),
            aggregate=Aggregate("sequence_mean"),
        ),
    ),
    Peer("CTPO", "the paper's objective", ctpo_paper, algorithm("ctpo", credit=_STD)),
    Peer(
        "CTPO",
        "its code: upper clip for A < 0, token mean",
        ctpo_code,
        algorithm(
            "ctpo",
            credit=_STD,
            limit=WideningWindow(upper_for_negative=True),
            aggregate=Aggregate("token_mean"),
        ),
    ),
    Peer(
        "prime-rl",
        "its default, DPPO + KL",
        prime_rl,
        _ppo_with(credit=GroupComparison(), limit=None, anchor="behaviour", kl=KL(2e-3, "k2")),
        "no row of ours: it drops tokens by a difference of probabilities, our limits bound "
        "ratios; but for the tokens dropped here it is a ratio over behaviour with k2 to it",
        extra=_prime_dropped,
        prepare=lambda batch: dataclasses.replace(batch, reference=batch.behaviour),
    ),
    Peer(
        "Tinker",
        "importance_sampling",
        tinker_sum,
        _ppo_with(credit=GroupComparison(), limit=None, anchor="behaviour", aggregate=_SUM),
        "a sum, so that the step grows with the batch, where ours divides by episodes",
        scale=lambda batch: len(batch.reward),
    ),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `loss` and `gradient` are largest absolute differences, `size` is the
    largest entry of the peer's gradient (or value), `left` what remains of both differences once
    the convention is applied."""

    peer: str
    what: str
    size: float
    loss: float
    gradient: float | None = None
    convention: str = ""
    left: float = 0.0

    @property
    def holds(self) -> bool:
        """Agrees; or differs, and agrees under the convention it names. Never of nothing."""
        if self.size < 100 * TOLERANCE:
            return False
        gap = max(self.loss, self.gradient or 0.0)
        if not self.convention:
            return gap <= TOLERANCE
        return gap > TOLERANCE and self.left <= TOLERANCE


def slope(formula: Formula, batch: Batch, step: float = 1e-5) -> Array:
    """Central differences of a formula with respect to every action token's log-prob: [B, L]."""
    gradient = np.zeros(batch.action.shape)
    for place in zip(*np.nonzero(batch.action), strict=True):
        up, down = batch.logp.copy(), batch.logp.copy()
        up[place] += step
        down[place] -= step
        gradient[place] = (formula(batch, up) - formula(batch, down)) / (2 * step)
    return gradient


def _gap(first: Any, second: Any) -> float:
    return float(np.max(np.abs(np.asarray(first) - np.asarray(second))))


def compare(peer: Peer, batch: Batch) -> Row:
    """A restated loss against our row of the table."""
    batch = peer.prepare(batch)
    loss, gradient = ours(batch, peer.row)
    their_loss, their_gradient = peer.theirs(batch, batch.logp), slope(peer.theirs, batch)
    scale = peer.scale(batch)
    left = max(
        _gap(their_loss, scale * loss + peer.extra(batch, batch.logp)),
        _gap(their_gradient, scale * gradient + slope(peer.extra, batch)),
    )
    return Row(
        peer.name,
        peer.what,
        _gap(their_gradient, 0.0),
        _gap(loss, their_loss),
        _gap(gradient, their_gradient),
        peer.convention,
        left,
    )


def walk_gae(
    reward: Array, value: Array, takes_part: npt.NDArray[np.bool_], gamma: float, lam: float
) -> Array:
    """GAE of one padded row, backwards; positions that take no part are stepped over."""
    advantage = np.zeros_like(value)
    next_value = next_advantage = 0.0
    for t in reversed(range(len(value))):
        if takes_part[t]:
            delta = reward[t] + gamma * next_value - value[t]
            next_advantage = delta + gamma * lam * next_advantage
            next_value, advantage[t] = value[t], next_advantage
    return advantage


def credit_rows(batch: Batch) -> list[Row]:
    """Group advantages, GAE and the value loss of other trainers against ours."""
    rows = []
    reward_E, group_E = torch.from_numpy(batch.reward), torch.from_numpy(batch.group)
    for name, epsilon in (("verl, SkyRL, slime", 1e-6), ("OpenRLHF", 1e-9)):
        mine, _ = group_advantage(reward_E, group_E, GroupComparison(scale="std", epsilon=epsilon))
        theirs = group_scores(batch.reward, batch.group, epsilon)
        rows.append(
            Row(name, f"(R − mean) / (std + {epsilon:g})", _gap(theirs, 0), _gap(mine, theirs))
        )

    alone_E = group_E.clone()
    alone_E[0] = GROUPS
    mine, kept = group_advantage(reward_E, alone_E, GroupComparison(scale="std", epsilon=1e-6))
    theirs = batch.reward / (1 + 1e-6)  # of a group of one: mean 0, deviation 1
    theirs[1:] = group_scores(batch.reward[1:], batch.group[1:], 1e-6)
    spread = np.zeros_like(theirs)
    spread[kept.numpy()] = mine.numpy()
    with_raw = spread + np.where(np.arange(len(theirs)) == 0, batch.reward, 0.0)
    rows.append(
        Row(
            "verl, SkyRL, rLLM",
            "a group of one",
            _gap(theirs, 0),
            _gap(spread, theirs),
            convention="they train it on the raw reward; with us it has no advantage and is absent",
            left=_gap(with_raw, theirs),
        )
    )

    others = [
        batch.reward[(batch.group == g) & (np.arange(len(batch.reward)) != i)]
        for i, g in enumerate(batch.group)
    ]
    centred = batch.reward - np.array([x.mean() for x in others])
    deviation = np.array([x.std(ddof=1) for x in others])
    scaled = np.where(deviation > 0, centred / np.where(deviation > 0, deviation, 1.0), centred)
    mine, _ = group_advantage(reward_E, group_E, GroupComparison(baseline="leave_one_out"))
    rows.append(Row("NeMo-RL", "leave-one-out mean", _gap(centred, 0), _gap(mine, centred)))
    rows.append(
        Row(
            "NeMo-RL",
            "leave-one-out mean and deviation",
            _gap(scaled, 0),
            _gap(mine, scaled),
            convention="each member has a scale of its own, and where the others are equal none; "
            "we have no such rule, leave_one_out is never divided",
            left=_gap(mine.numpy() / np.where(deviation > 0, deviation, 1.0), scaled),
        )
    )

    reward = np.zeros_like(batch.value)
    for i, mask in enumerate(batch.action):
        reward[i, np.nonzero(mask)[0][-1]] = batch.reward[i]
    real = np.arange(batch.action.shape[1]) < batch.length[:, None]

    def theirs_of(takes_part: npt.NDArray[np.bool_], gamma: float, lam: float) -> Array:
        rows = zip(reward, batch.value, takes_part, strict=True)
        return np.array([walk_gae(r, v, m, gamma, lam) for r, v, m in rows])

    def mine_of(gamma: float, lam: float) -> torch.Tensor:
        rule = GAE(gamma=gamma, lam=lam)
        value_T = batch.flat(batch.value)
        return credit(rule, batch.tokens(), batch.rewards(), value_T=value_T).advantage_A

    skipping = theirs_of(batch.action, 0.99, 0.95)[batch.action]
    rows.append(
        Row(
            "verl, AReaL, NeMo-RL",
            "GAE(.99, .95) over turns",
            _gap(skipping, 0),
            _gap(mine_of(0.99, 0.95), skipping),
        )
    )
    # Every position as an entry: what ours would say if observations were actions.
    everything = Runs.of(torch.from_numpy(np.nonzero(real)[0]))
    as_actions = gae(
        torch.from_numpy(reward[real]),
        torch.from_numpy(batch.value[real]),
        everything,
        gamma=0.99,
        lam=0.95,
    ).advantage_X.numpy()[batch.action[real]]
    ignoring = theirs_of(real, 0.99, 0.95)[batch.action]
    rows.append(
        Row(
            "SkyRL",
            "GAE(.99, .95) over turns",
            _gap(ignoring, 0),
            _gap(mine_of(0.99, 0.95), ignoring),
            convention="its walk ignores the mask, so every observation token has a value and one "
            "more decay by γλ; ours steps over it",
            left=_gap(as_actions, ignoring),
        )
    )
    ignoring = theirs_of(real, 1.0, 1.0)[batch.action]
    rows.append(
        Row("SkyRL", "GAE(1, 1) over turns", _gap(ignoring, 0), _gap(mine_of(1.0, 1.0), ignoring))
    )

    old, target = batch.value[batch.action] - 0.7, batch.reward.repeat(batch.action.sum(1))
    value = batch.value[batch.action]
    bounded = np.clip(value, old - 0.5, old + 0.5)
    theirs = 0.5 * np.maximum((value - target) ** 2, (bounded - target) ** 2)
    value_X = torch.from_numpy(value).requires_grad_()
    loss_X = value_loss(
        value_X, torch.from_numpy(target), old_value_X=torch.from_numpy(old), clip=0.5
    )
    (gradient_X,) = torch.autograd.grad(loss_X.sum(), value_X)
    # Every value has moved by .7, so the bounded error does not depend on it.
    plain = (value - target) ** 2 >= (bounded - target) ** 2
    rows.append(
        Row(
            "verl, AReaL, OpenRLHF",
            "value loss clipped at .5",
            _gap(theirs, 0),
            _gap(loss_X.detach(), theirs),
            _gap(gradient_X, np.where(plain, value - target, 0.0)),
        )
    )
    return rows


# TRL's own code.


@dataclass(frozen=True, slots=True)
class TrlCase:
    """A configuration of TRL and the row of ours that should be it."""

    what: str
    config: dict[str, Any]
    row: Algorithm
    convention: str = ""
    explain: Callable[[Batch], tuple[float, Array]] | None = None
    noise: float = 0.3
    unscored: int | None = None


TRL_LENGTH = 40


def _trl_cases() -> list[TrlCase]:
    gspo = {"importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4}
    ours_gspo, ours_dapo = algorithm("gspo"), algorithm("dapo")
    ours_cispo = algorithm("cispo")
    per_token = dataclasses.replace(ours_gspo, aggregate=Aggregate("token_mean"))
    no_ratio = dataclasses.replace(ours_cispo, ratio="none", limit=None)

    def cispo_value(batch: Batch) -> tuple[float, Array]:
        loss, gradient = ours(batch, ours_cispo)
        bounded = np.minimum(np.exp(batch.logp - batch.prox), 5.0)
        shift = -bounded * _advantage(batch, 1e-4) * batch.prox
        return loss + _token_mean(shift, batch), gradient

    def cispo_default(batch: Batch) -> tuple[float, Array]:
        loss, gradient = ours(batch, no_ratio)
        return 0.2 * loss, 0.2 * gradient

    def without_last(batch: Batch) -> tuple[float, Array]:
        kept = list(range(len(batch.reward) - 1))
        loss, part = ours(batch, ours_dapo, kept)
        share = batch.action[kept].sum() / batch.action.sum()
        gradient = np.zeros(batch.action.shape)
        gradient[kept] = part
        return share * loss, share * gradient

    return [
        TrlCase(
            "GRPO, β .04 with the paper's KL",
            {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": False},
            algorithm("grpo"),
        ),
        TrlCase(
            "GRPO, β .04 with TRL's default KL",
            {"loss_type": "grpo", "beta": 0.04},
            algorithm("grpo"),
            "its default multiplies k3 by the ratio, our 'k3_ratio'; the paper, and our row, do "
            "not",
            lambda batch: ours(batch, algorithm("grpo", kl=KL(0.04, "k3_ratio"))),
        ),
        TrlCase(
            "Dr.GRPO",
            {"loss_type": "dr_grpo", "scale_rewards": "none"},
            algorithm("dr_grpo", aggregate=Aggregate("constant", length=TRL_LENGTH)),
        ),
        TrlCase("DAPO", {"loss_type": "dapo", "epsilon_high": 0.28}, ours_dapo),
        TrlCase(
            "DAPO, delta 3",
            {"loss_type": "dapo", "epsilon_high": 0.28, "delta": 3.0},
            algorithm("dapo", limit=ClipMin(0.2, 0.28, dual=3.0)),
            noise=2.0,
        ),
        TrlCase(
            "CISPO, cap 5",
            {"loss_type": "cispo", "epsilon_high": 5.0},
            ours_cispo,
            "their value has log π where ours has log ρ; the gradient is the same",
            cispo_value,
            noise=2.5,
        ),
        TrlCase("GSPO, sequence mean", {"loss_type": "grpo", **gspo}, ours_gspo),
        TrlCase(
            "GSPO, TRL's default loss type",
            gspo,
            ours_gspo,
            "its default is the token mean, which weighs sequences by length; the paper, and our "
            "row, take a mean per sequence",
            lambda batch: ours(batch, per_token),
        ),
        TrlCase(
            "CISPO, TRL's default bound",
            {"loss_type": "cispo"},
            ours_cispo,
            "without epsilon_high it takes ε = .2 as the absolute cap, so every weight here is .2; "
            "we refuse a cap below 1",
            cispo_default,
        ),
        TrlCase(
            "DAPO, one completion unscored",
            {"loss_type": "dapo", "epsilon_high": 0.28},
            ours_dapo,
            "the unscored completion gets advantage 0 in both, but its tokens stay in TRL's "
            "denominator and leave ours",
            without_last,
            unscored=GROUPS * GROUP_SIZE - 1,
        ),
    ]


def _trl_trainer(directory: str, batch: Batch, case: TrlCase) -> Any:
    """A real GRPOTrainer whose rollouts and rewards are those of `batch`."""
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from transformers.utils import logging
    from trl import GRPOConfig, GRPOTrainer

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    words = ["<pad>", "<eos>", *(f"w{i}" for i in range(30))]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({w: i for i, w in enumerate(words)}, "<pad>")),
        pad_token="<pad>",
        eos_token="<eos>",
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.5,  # wide, so that log-probs differ from token to token
        pad_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    rng = np.random.default_rng(0)
    completions = [rng.integers(2, len(words), n).tolist() for n in batch.length]
    masks = [
        row[:n].astype(int).tolist() for row, n in zip(batch.action, batch.length, strict=True)
    ]
    rewards: list[float | None] = batch.reward.tolist()
    if case.unscored is not None:
        rewards[case.unscored] = None

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        return {
            "prompt_ids": [[2 + len(p) % 5, 3, 4] for p in prompts],
            "completion_ids": completions,
            "logprobs": None,
            "env_mask": masks,
        }

    def reward(**columns: Any) -> list[float | None]:
        assert columns["completion_ids"] == completions, "TRL has reordered the episodes"
        return rewards

    class Watched(GRPOTrainer):  # type: ignore[misc]
        """Keeps the log-probs that TRL's loss is computed from, with their gradient."""

        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
            outcome = super()._get_per_token_logps_and_entropies(*args, **kwargs)
            self.logps = outcome[0]
            if self.logps.requires_grad:
                self.logps.retain_grad()
            return outcome

    trainer = Watched(
        model=directory,
        reward_funcs=reward,
        train_dataset=Dataset.from_list([{"prompt": f"prompt {g}"} for g in range(GROUPS)]),
        processing_class=tokenizer,
        rollout_func=rollout,
        args=GRPOConfig(
            output_dir=directory,
            per_device_train_batch_size=len(rewards),
            num_generations=GROUP_SIZE,
            max_completion_length=TRL_LENGTH,
            temperature=1.0,
            bf16=False,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": "float32"},
            **case.config,
        ),
    )
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1  # what its training loop sets
    return trainer


def compare_trl(case: TrlCase, made: Batch) -> Row:
    """TRL's loss and its gradient with respect to the log-probs against ours."""
    rng = np.random.default_rng(1)
    n = len(made.reward)
    with tempfile.TemporaryDirectory() as directory:
        trainer = _trl_trainer(directory, made, case)
        prompts = [{"prompt": f"prompt {g}"} for g in made.group]
        inputs = trainer._generate_and_score_completions(prompts)
        with torch.no_grad():
            trainer._compute_loss(trainer.model, inputs)
        logp = trainer.logps.double().numpy()
        noise = rng.uniform(-case.noise, case.noise, (2, *logp.shape)).astype(np.float32)
        old, reference = (trainer.logps.detach() + torch.from_numpy(x) for x in noise)
        inputs["old_per_token_logps"] = old
        if trainer.beta:
            inputs["ref_per_token_logps"] = reference
        loss = trainer._compute_loss(trainer.model, inputs)
        loss.backward()
        gradient = trainer.logps.grad.double().numpy()
    taken = inputs["completion_mask"] * inputs["tool_mask"]
    assert np.array_equal(made.action, taken.bool().numpy()), "TRL sees other action tokens"
    batch = dataclasses.replace(
        made, logp=logp, prox=old.double().numpy(), reference=reference.double().numpy()
    )
    kept = [i for i in range(n) if i != case.unscored]
    my_loss, part = ours(batch, case.row, kept)
    my_gradient = np.zeros_like(gradient)
    my_gradient[kept] = part
    left = 0.0
    if case.explain is not None:
        expected_loss, expected_gradient = case.explain(batch)
        left = max(_gap(loss.item(), expected_loss), _gap(gradient, expected_gradient))
    return Row(
        "TRL (its code)",
        case.what,
        _gap(gradient, 0.0),
        _gap(my_loss, loss.item()),
        _gap(my_gradient, gradient),
        case.convention,
        left,
    )


def as_markdown(rows: list[Row]) -> str:
    """The table, one line a row."""
    lines = ["| peer | what | size | Δ loss or value | Δ gradient | |", "|---|---|---|---|---|---|"]
    for row in rows:
        gradient = "" if row.gradient is None else f"{row.gradient:.0e}"
        verdict = f"{row.convention} (left: {row.left:.0e})" if row.convention else "agrees"
        if not row.holds:
            verdict = f"**DOES NOT HOLD**: {verdict}"
        numbers = f"{row.size:.0e} | {row.loss:.0e} | {gradient}"
        lines.append(f"| {row.peer} | {row.what} | {numbers} | {verdict} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--no-trl", action="store_true", help="only the formulas in numpy")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    batch = make_batch(arguments.seed)
    rows = []
    if importlib.util.find_spec("trl") is not None and not arguments.no_trl:
        rows += [compare_trl(case, batch) for case in _trl_cases()]
    elif not arguments.no_trl:
        print("TRL is not installed, so its rows are left out: pip install 'steelyard[bench]'\n")
    rows += [compare(peer, batch) for peer in PEERS] + credit_rows(batch)
    print(as_markdown(rows))
    if not all(row.holds for row in rows):
        raise SystemExit("\nA row holds neither as it is nor under the convention it names.")


if __name__ == "__main__":
    main()
