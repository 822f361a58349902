"""The critic's weights: V(h) from hidden states, the policy's own or those of another network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from steelyard.learner.forward import BinForward
from steelyard.learner.packing import Bin
from steelyard.learner.settings import LearnerSettings
from steelyard.learner.trained import TrainedWeights
from steelyard.models.loading import LoadedModel, load_weights
from steelyard.objective import Critic, value_loss

_WEIGHTS = "critic.safetensors"
_OPTIMISER = "critic_optimizer.safetensors"


@dataclass(frozen=True, slots=True)
class ValueFit:
    """What a critic regresses on, [T]: targets, its values at the batch's start, and the weight of
    each token (the policy's own coefficients)."""

    target_T: Tensor
    old_value_T: Tensor
    weight_T: Tensor
    rule: Critic


class CriticModel:
    """V(h) = w · hidden(h) + b, which starts at 0.

    As "head" it reads the policy's hidden states behind a stop-gradient; as "network" it has a
    trunk of its own, which starts from the policy and is trained in full.
    """

    def __init__(self, rule: Critic, loaded: LoadedModel, settings: LearnerSettings) -> None:
        self._trunk: BinForward | None = None
        named: list[tuple[str, Tensor]] = []
        model: Any = None
        if rule.kind == "network":
            model = load_weights(loaded, getattr(torch, settings.dtype), settings.device)
            self._trunk = BinForward(model, share_prefixes=settings.share_prefixes)
            head = model.get_output_embeddings()
            unused = set() if head is None else {id(p) for p in head.parameters()}
            unused -= {id(p) for p in model.get_input_embeddings().parameters()}
            named = [(n, p) for n, p in model.named_parameters() if id(p) not in unused]
        width = loaded.config.get_text_config().hidden_size
        self._head = torch.nn.Linear(width, 1, device=settings.device)
        torch.nn.init.zeros_(self._head.weight)
        torch.nn.init.zeros_(self._head.bias)

        def full_precision() -> dict[str, Tensor]:
            return dict(load_weights(loaded, torch.float32, settings.device).named_parameters())

        self._weights = TrainedWeights(
            [*named, *self._named_head()], settings, full_precision if named else None
        )

    def values(self, bin_: Bin, hidden_PD: Tensor) -> Tensor:
        """V before each action token of the bin, in its order: float32 [T'], on the CPU.

        Args:
            hidden_PD: the policy's hidden states of the bin's predictions.
        """
        states_PD = hidden_PD.detach() if self._trunk is None else self._trunk.run(bin_).hidden_PD
        value_P: Tensor = self._head(states_PD.float())[:, 0]
        return value_P.cpu().index_select(0, bin_.prediction_T)

    def fit(self, bin_: Bin, hidden_PD: Tensor, wanted: ValueFit) -> float:
        """Adds the gradient of coefficient · Σ_t weight_t · L_t over the bin; returns Σ weight · L.

        None of it reaches the policy.
        """
        index_T, rule = bin_.index_T, wanted.rule
        loss_T = value_loss(
            self.values(bin_, hidden_PD),
            wanted.target_T[index_T],
            old_value_X=wanted.old_value_T[index_T],
            clip=rule.clip,
        )
        total = (wanted.weight_T[index_T] * loss_T).sum()
        (rule.coefficient * total).backward()  # type: ignore[no-untyped-call]
        return float(total.detach())

    def take_trunk(self, weights: Mapping[str, Tensor]) -> None:
        """Starts the trunk of a network from these weights, by Hugging Face name."""
        if self._trunk is not None:
            self._weights.overwrite(weights)

    def move(self, loss: float, learning_rate: float) -> str:
        """One optimiser step; says why not, if not."""
        return self._weights.move(loss, learning_rate)[1]

    @property
    def nbytes(self) -> int:
        """Bytes that a checkpoint of it takes."""
        return self._weights.nbytes

    def save(self, folder: Path) -> None:
        """Writes weights and optimiser state into a checkpoint's folder."""
        from safetensors.torch import save_file

        save_file(
            {k: v.contiguous() for k, v in self._weights.masters().items()}, folder / _WEIGHTS
        )
        save_file(self._weights.optimiser_tensors(), folder / _OPTIMISER)

    def load(self, folder: Path) -> None:
        """Takes back what `save` wrote.

        Raises:
            ValueError: the folder holds no critic, or another one.
        """
        from safetensors.torch import load_file

        if not (folder / _WEIGHTS).is_file():
            raise ValueError(
                f"checkpoint {folder}: it holds no critic; algorithm.critic was not set when it "
                "was written"
            )
        try:
            self._weights.restore(load_file(folder / _WEIGHTS), load_file(folder / _OPTIMISER))
        except ValueError as error:
            raise ValueError(f"checkpoint {folder}: critic: {error}") from None

    def _named_head(self) -> list[tuple[str, Tensor]]:
        return [(f"value_head.{name}", p) for name, p in self._head.named_parameters()]
