"""`[algorithm]` of the run file: a row of the table, and the axes that a user changes in it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from steelyard.objective import KINDS, Algorithm, algorithm
from steelyard.objective.ratio import Scope


class AlgorithmSection(BaseModel):
    """`[algorithm]`: a row of the table (`steelyard algorithms`), and axes changed in it.

    An axis is a table of its fields (`limit = { high = 0.3 }` changes the row's own limit,
    `limit = { kind = "mask" }` takes another), or a kind's name, or "none".
    """

    # An infinite bound stays infinite in the record.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    name: str = "dapo"
    credit: str | dict[str, Any] | None = None
    ratio: Scope | None = None
    limit: str | dict[str, Any] | None = None
    aggregate: str | dict[str, Any] | None = None
    anchor: Literal["prox", "behaviour"] | None = None
    correction: str | dict[str, Any] | None = None
    kl: str | dict[str, Any] | None = None
    entropy: float | None = Field(None, ge=0)
    covariance: str | dict[str, Any] | None = None
    critic: str | dict[str, Any] | None = None
    distillation: str | dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check(self) -> AlgorithmSection:
        self.build(1)
        return self

    def build(self, max_episode_tokens: int) -> Algorithm:
        """The algorithm that this section names.

        Args:
            max_episode_tokens: the length of "constant" aggregation, unless the row has one.

        Raises:
            ValueError: an unknown row, kind or field, or a combination that cannot be.
        """
        row = algorithm(self.name)
        changes: dict[str, Any] = {}
        for axis in ("ratio", "anchor", "entropy"):
            if (value := getattr(self, axis)) is not None:
                changes[axis] = value
        for axis in KINDS:
            if (given := getattr(self, axis)) is not None:
                changes[axis] = _record(axis, given, getattr(row, axis))
        aggregate = changes.get("aggregate", row.aggregate)
        if aggregate.kind == "constant" and aggregate.length is None:
            changes["aggregate"] = dataclasses.replace(aggregate, length=max_episode_tokens)
        return algorithm(self.name, **changes)


def hint(name: object, known: Iterable[str]) -> str:
    """What the writer of `name` may have meant."""
    choices = sorted(known)
    close = difflib.get_close_matches(str(name), choices, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(choices) or 'none'}"


_SHORT: Mapping[str, str] = {
    "aggregate": "kind",
    "correction": "kind",
    "kl": "estimator",
    "critic": "kind",
    "distillation": "divergence",
}
"""The field that a bare word sets, on axes with a single record."""


def _record(axis: str, given: str | Mapping[str, Any], present: Any) -> Any:
    if given == "none":
        if axis == "aggregate":
            raise ValueError("algorithm.aggregate: a loss is always averaged; name how")
        return None
    kinds = KINDS[axis]
    fields: dict[str, Any]
    if axis in _SHORT:
        (record,) = kinds.values()
        fields = {_SHORT[axis]: given} if isinstance(given, str) else dict(given)
    else:
        fields = {"kind": given} if isinstance(given, str) else dict(given)
        kind = fields.pop("kind", None)
        if kind is None:
            if present is None:
                raise ValueError(
                    f"algorithm.{axis}: name its kind, one of {', '.join(sorted(kinds))}"
                )
            record = type(present)
        elif kind not in kinds:
            raise ValueError(f"algorithm.{axis}: kind {kind!r} is not known; {hint(kind, kinds)}")
        else:
            record = kinds[kind]
    known = [field.name for field in dataclasses.fields(record)]
    for name in fields:
        if name not in known:
            raise ValueError(f"algorithm.{axis}.{name}: unknown key; {hint(name, known)}")
    if type(present) is record:
        fields = dataclasses.asdict(present) | fields
    try:
        return TypeAdapter(record).validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        message = str(first["msg"]).removeprefix("Value error, ")
        if not first["loc"]:  # the record's own sentence already names the axis
            raise ValueError(f"algorithm.{message}") from None
        where = ".".join(["algorithm", axis, *map(str, first["loc"])])
        raise ValueError(f"{where}: {message}") from None
