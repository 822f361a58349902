"""Weights that an optimiser moves: float32 masters behind parameters that compute."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from steelyard.learner.settings import LearnerSettings


@dataclass(frozen=True, slots=True)
class _Pair:
    """A parameter and its float32 master, which may be the parameter itself."""

    parameter: Tensor
    master: Tensor
    gathering: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_copy(self) -> bool:
        return self.parameter is not self.master


class TrainedWeights:
    """Named parameters, their masters and AdamW. Gradients gather on the masters."""

    def __init__(
        self,
        parameters: Iterable[tuple[str, Tensor]],
        settings: LearnerSettings,
        full_precision: Callable[[], Mapping[str, Tensor]] | None = None,
    ) -> None:
        """`full_precision` gives the float32 weights behind narrower parameters, by name; the
        file may hold more bits than the parameters kept."""
        named = list(parameters)
        self._settings = settings
        full: Mapping[str, Tensor] = {}
        if any(p.dtype != torch.float32 for _, p in named):
            assert full_precision is not None
            full = full_precision()
        self._pairs = {
            name: _Pair(p, p if p.dtype == torch.float32 else full[name].detach())
            for name, p in named
        }
        for pair in self._pairs.values():
            if pair.is_copy:
                _gather(pair.parameter, pair)
        self._optimiser = torch.optim.AdamW(
            [pair.master for pair in self._pairs.values()],
            betas=(settings.adam_beta1, settings.adam_beta2),
            eps=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of masters and optimiser state, as a checkpoint holds them."""
        return 3 * sum(pair.master.numel() * 4 for pair in self._pairs.values())

    def master_of(self, parameter: Tensor) -> Tensor:
        """The master behind `parameter`, or itself if it is not trained."""
        # By identity, since tied weights have two names.
        return next((p.master for p in self._pairs.values() if p.parameter is parameter), parameter)

    def gather_from(self, parameters: Iterable[tuple[str, Tensor]]) -> None:
        """Lets the gradients of further parameters, by name, gather on these masters too."""
        for name, parameter in parameters:
            if name in self._pairs:
                _gather(parameter, self._pairs[name])

    def clear(self) -> None:
        """Forgets gradients."""
        self._optimiser.zero_grad(set_to_none=True)

    def forget_moments(self) -> None:
        """Starts AdamW's moments anew, as for another objective."""
        self._optimiser.state.clear()

    def move(self, loss: float, learning_rate: float) -> tuple[float, str]:
        """Clips and steps; returns the norm before clipping, and why the weights stayed if so."""
        masters = [pair.master for pair in self._pairs.values()]
        gradients = [m.grad for m in masters if m.grad is not None]
        grad_norm = float(torch.nn.utils.get_total_norm(gradients, foreach=True))
        if not (math.isfinite(grad_norm) and math.isfinite(loss)):
            self.clear()
            return grad_norm, "non-finite loss or gradient"
        limit = self._settings.max_grad_norm
        if grad_norm > limit:
            torch._foreach_mul_(gradients, limit / grad_norm)
        self._optimiser.param_groups[0]["lr"] = learning_rate
        self._optimiser.step()
        self.clear()
        self._publish()
        return grad_norm, ""

    def restore(self, saved: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Takes masters and AdamW's state back.

        Raises:
            ValueError: a weight is missing or of another shape; nothing was changed.
        """
        for name, pair in self._pairs.items():
            if name not in saved or saved[name].shape != pair.master.shape:
                raise ValueError(f"weight {name} is missing or of another shape")
        with torch.no_grad():
            for name, pair in self._pairs.items():
                pair.master.copy_(saved[name])
        self._publish()
        number = {name: i for i, name in enumerate(self._pairs)}
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in optimiser.items():
            field, name = key.split(":", 1)
            state.setdefault(number[name], {})[field] = value
        groups = self._optimiser.state_dict()["param_groups"]
        self._optimiser.load_state_dict({"state": state, "param_groups": groups})

    def overwrite(self, weights: Mapping[str, Tensor]) -> None:
        """Takes those of `weights` that are held here; the rest and AdamW's state stay."""
        with torch.no_grad():
            for name, pair in self._pairs.items():
                if name in weights:
                    pair.master.copy_(weights[name])
        self._publish()

    def masters(self) -> dict[str, Tensor]:
        """By name."""
        return {name: pair.master.detach() for name, pair in self._pairs.items()}

    def optimiser_tensors(self) -> dict[str, Tensor]:
        """AdamW's state, as `restore` takes it."""
        state = self._optimiser.state_dict()["state"]
        return {
            f"{field}:{name}": value.contiguous()
            for i, name in enumerate(self._pairs)
            for field, value in state.get(i, {}).items()
        }

    def _publish(self) -> None:
        """Copies the masters into the parameters that compute."""
        copies = [pair for pair in self._pairs.values() if pair.is_copy]
        if copies:
            with torch.no_grad():
                torch._foreach_copy_([p.parameter for p in copies], [p.master for p in copies])


def _gather(parameter: Tensor, pair: _Pair) -> None:
    """Adds what arrives at `parameter` to the gradient of the pair's master."""
    master = pair.master

    def hook(parameter: Tensor) -> None:
        gradient = parameter.grad
        assert gradient is not None
        # Freed at once: the bfloat16 gradients never exist all together.
        parameter.grad = None
        with pair.gathering:
            if master.grad is None:
                master.grad = gradient.float()
            else:
                master.grad.add_(gradient)

    parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
