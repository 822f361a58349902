"""What counts as a reward: a finite number in range, and nothing that merely looks like one."""

from __future__ import annotations

import json
import math
from typing import Any

LOWEST_REWARD = 0.0
HIGHEST_REWARD = 1.0


class MalformedReward(ValueError):
    """A reward that is missing, not a number, or out of range; the sentence says which."""


def read_number(value: Any, name: str = "reward") -> float:
    """A finite int or float within [0, 1] as a float. Raises MalformedReward."""
    if type(value) not in (int, float):  # a bool is not a number, a subclass could be anything
        raise MalformedReward(f"{name} is {value!r:.80}, a {type(value).__name__}, not a number")
    if not math.isfinite(value) or not LOWEST_REWARD <= value <= HIGHEST_REWARD:
        raise MalformedReward(
            f"{name} is {value!r:.80}, not within [{LOWEST_REWARD:g}, {HIGHEST_REWARD:g}]"
        )
    return float(value)


def read_reward_text(data: bytes) -> float:
    """The content of a Harbor reward.txt: one number. Raises MalformedReward."""
    text = data.decode("utf-8", errors="replace").strip()
    try:
        if "_" in text:
            raise ValueError
        number = float(text)
    except ValueError:
        raise MalformedReward(f"reward.txt holds {text!r:.80}, not a number") from None
    return read_number(number, "reward.txt")


def read_reward_json(data: bytes) -> dict[str, float]:
    """The content of a Harbor reward.json: a flat object of numbers, "reward" among them.

    Harbor lets the keys be any; where there is only one, it is the reward, whatever its name. With
    several and no "reward" there is no one number to learn from, and reward.txt is not read in its
    place: as in Harbor (0.26.0, verifier/verifier.py) it counts only where there is no reward.json,
    and a program could plant it under a script that never writes one.

    Raises MalformedReward, also for a repeated key and for NaN, which JSON does not have.
    """
    try:
        rewards = json.loads(data, object_pairs_hook=_unique_pairs, parse_constant=_refuse_constant)
    except MalformedReward:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedReward(f"reward.json is not JSON: {error}") from None
    if isinstance(rewards, dict) and len(rewards) == 1:
        rewards = {"reward": next(iter(rewards.values()))}
    if not isinstance(rewards, dict) or "reward" not in rewards:
        raise MalformedReward(
            'reward.json is not an object with the key "reward", nor with a single key (reward.txt '
            'is read only where there is no reward.json); let test.sh write "reward" into it'
        )
    return {name: read_number(value, f"reward.json: {name}") for name, value in rewards.items()}


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise MalformedReward("reward.json has a key twice")
    return dict(pairs)


def _refuse_constant(name: str) -> Any:
    raise MalformedReward(f"reward.json holds {name}, which is not a finite number")
