"""The scorers of reasoning-gym (Apache-2.0), each on a few entries of its own making."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from audit_real_targets.job import Job, installed
from steelyard.tasks import read_jsonl

_VERSION = "0.1.25"
_SCORER = Path(__file__).with_name("gym_score.py")
_NO_DATASET = ("composite",)
"""Made of other datasets, and nothing of its own."""


def gym_jobs(
    folder: Path,
    *,
    datasets: Sequence[str],
    examples: int,
    seed: int,
    say: Callable[[str], None],
) -> Iterator[Job]:
    """One job per dataset, or per dataset of `datasets`, written below `folder`."""
    installed("reasoning-gym", _VERSION)
    import reasoning_gym  # noqa: F401 (it registers all datasets)
    from reasoning_gym.factory import DATASETS

    unknown = sorted(set(datasets) - DATASETS.keys())
    if unknown:
        raise ValueError(f"reasoning-gym {_VERSION} has no dataset {unknown[0]!r}")
    for name in datasets or sorted(DATASETS.keys() - {*_NO_DATASET}):
        module = DATASETS[name][0].__module__
        try:
            rows = _rows(name, module, examples, seed)
        except Exception as error:  # a generator of theirs; the others go on
            say(f"reasoning-gym {name}: no entries ({type(error).__name__}: {error})")
            continue
        home = folder / name
        home.mkdir(parents=True, exist_ok=True)
        file = home / "examples.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        scorer = home / f"score_{name}.py"
        scorer.write_bytes(_SCORER.read_bytes())
        tasks = read_jsonl(file, f"{scorer.name}:score")
        yield Job("reasoning-gym", tasks, {"max_examples": examples}, packages=True, name=name)


def _rows(name: str, module: str, examples: int, seed: int) -> list[dict[str, Any]]:
    from reasoning_gym.factory import create_dataset

    dataset = create_dataset(name, seed=seed, size=examples)
    entries = [dataset[index] for index in range(examples)]
    return [
        {
            "prompt": entry["question"],
            "expected": entry["answer"],
            "module": module,
            "dataset": name,
            "seed": seed,
            "size": examples,
            "index": index,
            "entry": entry if _survives_json(entry) else None,
        }
        for index, entry in enumerate(entries)
    ]


def _survives_json(entry: object) -> bool:
    """Whether JSON gives the entry back as it was: no tuple, set, object or key of another type."""
    try:
        return bool(json.loads(json.dumps(entry)) == entry)
    except (TypeError, ValueError):
        return False
