"""The learner moves the weights. Three calls: score, then (credit, outside) step, then weights."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from steelyard.learner.batch import Batch
from steelyard.learner.checkpoint import write_directory
from steelyard.learner.forward import BinForward
from steelyard.learner.settings import LearnerSettings
from steelyard.models.loading import LoadedModel, load_weights

TokenLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(logp_T, index_T) → value_T. `index_T` says which action tokens of the batch these are; an
episode's tokens in one segment always come together. float32, on the CPU."""

_COUNTERS = "learner.json"
_OPTIMISER = "optimizer.safetensors"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One optimiser step. `loss` is Σ weight · value; `grad_norm` is before clipping;
    `entropy_mean` is nats per trained action token; `nodes` went through the model where
    `raw_tokens` would have without shared prefixes; `skipped` names why the weights did not move
    (empty if they did)."""

    loss: float
    grad_norm: float
    entropy_mean: float
    action_tokens: int
    nodes: int
    raw_tokens: int
    bins: int
    seconds: float
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class _Trained:
    """A parameter of the model and its float32 master, which may be the parameter itself."""

    parameter: Tensor
    master: Tensor

    @property
    def is_copy(self) -> bool:
        return self.parameter is not self.master


class Learner:
    """Holds the weights and moves them.

    `note` is one sentence for the reader of the run if the model cannot be packed, else empty.
    Not thread-safe: one thread calls it.
    """

    def __init__(self, model: LoadedModel, settings: LearnerSettings) -> None:
        self.settings = settings
        self.steps_taken = 0
        self.steps_skipped = 0
        self._loaded = model
        self._claim_threads()
        dtype = getattr(torch, settings.dtype)
        self._model = load_weights(model, dtype, settings.device)
        self._adapter: Any = None
        if settings.method == "lora":
            self._adapter = _with_adapter(self._model, settings)
        self._forward = BinForward(self._model, share_prefixes=settings.share_prefixes)
        self.note = self._forward.note
        self._trained = self._masters()
        self._optimiser = torch.optim.AdamW(
            [t.master for t in self._trained.values()],
            betas=(settings.adam_beta1, settings.adam_beta2),
            eps=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def score(self, batch: Batch, *, temperature: float = 1.0) -> Tensor:
        """log π(token_t) of every action token under the present weights: logp_T, float32."""
        self._claim_threads()
        logp_T = torch.zeros(len(batch))
        with torch.no_grad():
            for bin_ in self._forward.pack(batch, None, self.settings.max_bin_tokens):
                logp_T[bin_.index_T], _ = self._forward(bin_, temperature=temperature)
        return logp_T

    def step(
        self,
        batch: Batch,
        loss: TokenLoss,
        weight_T: Tensor,
        *,
        learning_rate: float,
        temperature: float = 1.0,
    ) -> StepMetrics:
        """One optimiser step on Σ_t weight_t · value_t, value_T = loss(logp_T, index_T).

        `weight_T` is computed once over the whole batch, denominators included, so that how the
        batch is cut into bins changes nothing. Episodes whose weights are all zero are not run.
        A minibatch is a `weight_T` that is zero outside it.

        The weights stay as they are, and `skipped` says so, if no token has weight or if the loss
        or the gradient is not finite.
        """
        self._claim_threads()
        start = time.perf_counter()
        self._optimiser.zero_grad(set_to_none=True)
        active_E = torch.zeros(batch.n_episodes, dtype=torch.bool)
        active_E[batch.episode_T[weight_T != 0]] = True
        bins = self._forward.pack(batch, active_E[batch.episode_T], self.settings.max_bin_tokens)
        total = entropy = 0.0
        for bin_ in bins:
            logp_T, entropy_T = self._forward(bin_, temperature=temperature, with_entropy=True)
            assert entropy_T is not None
            part = (weight_T[bin_.index_T] * loss(logp_T, bin_.index_T)).sum()
            part.backward()  # type: ignore[no-untyped-call]
            total += float(part.detach())
            entropy += float(entropy_T.sum())
        grad_norm, skipped = self._move(total, learning_rate) if bins else (0.0, "no signal")
        action_tokens = sum(len(bin_.index_T) for bin_ in bins)
        return StepMetrics(
            loss=total,
            grad_norm=grad_norm,
            entropy_mean=entropy / max(1, action_tokens),
            action_tokens=action_tokens,
            nodes=sum(len(bin_) for bin_ in bins),
            raw_tokens=sum(bin_.raw_tokens for bin_ in bins),
            bins=len(bins),
            seconds=time.perf_counter() - start,
            skipped=skipped,
        )

    def weights(self, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """The weights that the learner computes with, by Hugging Face name, adapters merged.

        Tensors may be the learner's own: copy them before the next step. `dtype` None keeps the
        learner's.
        """
        merged = self._merged() if self._adapter is not None else self._model.state_dict()
        return {k: v if dtype is None else v.to(dtype) for k, v in merged.items()}

    def export(self, directory: Path) -> None:
        """Writes a plain Hugging Face directory of the weights that the engine samples from.

        Raises:
            OSError: it could not be written; one sentence.
        """
        weights = self.weights()
        size = sum(t.numel() * t.element_size() for t in weights.values())
        write_directory(directory, lambda folder: self._save_model(folder, weights), size)

    def save_checkpoint(self, directory: Path) -> None:
        """Writes all that a later `load_checkpoint` needs to go on exactly from here.

        The directory is a Hugging Face model of the float32 masters (or a PEFT adapter) with the
        optimiser's state and the counters beside it. It appears whole or not at all.

        Raises:
            OSError: it could not be written; one sentence, and earlier checkpoints are intact.
        """
        size = 3 * sum(t.master.numel() * 4 for t in self._trained.values())
        write_directory(directory, self._fill_checkpoint, size)

    def load_checkpoint(self, directory: Path) -> None:
        """Takes weights, optimiser state and counters from `save_checkpoint`'s directory.

        Raises:
            ValueError: the directory is not such a checkpoint, or of another model or method.
        """
        counters = self._counters_of(directory)
        named = self._saved_masters(directory)
        for name, trained in self._trained.items():
            saved = named.get(name)
            if saved is None or saved.shape != trained.master.shape:
                raise ValueError(
                    f"checkpoint {directory}: weight {name} is missing or of another shape; it "
                    f"belongs to another model than {self._loaded.name!r}"
                )
        with torch.no_grad():
            for name, trained in self._trained.items():
                trained.master.copy_(named[name])
        self._publish()
        self._load_optimiser(directory / _OPTIMISER)
        self.steps_taken = counters["steps_taken"]
        self.steps_skipped = counters["steps_skipped"]

    def forget_moments(self) -> None:
        """Starts AdamW's moments anew, as for another objective: imitation before, RL after."""
        self._optimiser.state.clear()

    def _move(self, loss: float, learning_rate: float) -> tuple[float, str]:
        """Clips, steps and publishes; returns the norm before clipping and why it did not."""
        masters = [t.master for t in self._trained.values()]
        gradients = [m.grad for m in masters if m.grad is not None]
        grad_norm = float(torch.nn.utils.get_total_norm(gradients, foreach=True))
        if not (math.isfinite(grad_norm) and math.isfinite(loss)):
            self.steps_skipped += 1
            self._optimiser.zero_grad(set_to_none=True)
            return grad_norm, "non-finite loss or gradient"
        limit = self.settings.max_grad_norm
        if grad_norm > limit:
            torch._foreach_mul_(gradients, limit / grad_norm)
        self._optimiser.param_groups[0]["lr"] = learning_rate
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self._publish()
        self.steps_taken += 1
        return grad_norm, ""

    def _masters(self) -> dict[str, _Trained]:
        """Every trained parameter with its float32 master, gradients routed to the master."""
        named = [(n, p) for n, p in self._model.named_parameters() if p.requires_grad]
        if all(p.dtype == torch.float32 for _, p in named):
            return {name: _Trained(p, p) for name, p in named}
        assert self._adapter is None, "peft keeps adapters in float32"
        # Loaded again in float32: the file may hold more bits than the compute copy kept.
        full = dict(
            load_weights(self._loaded, torch.float32, self.settings.device).named_parameters()
        )
        trained = {name: _Trained(p, full[name].detach()) for name, p in named}
        for pair in trained.values():
            accumulate = _accumulate_into(pair.master)
            pair.parameter.register_post_accumulate_grad_hook(accumulate)  # type: ignore[no-untyped-call]
        return trained

    def _publish(self) -> None:
        """Copies the masters into the model that computes."""
        copies = [t for t in self._trained.values() if t.is_copy]
        if copies:
            with torch.no_grad():
                torch._foreach_copy_([t.parameter for t in copies], [t.master for t in copies])

    def _merged(self) -> dict[str, Tensor]:
        """W + (alpha / rank) · B A of every adapted layer, under the base model's names."""
        from peft.tuners.tuners_utils import BaseTunerLayer

        adapted = {n: m for n, m in self._model.named_modules() if isinstance(m, BaseTunerLayer)}
        merged = {}
        for name, value in self._model.state_dict().items():
            if ".lora_" in name:
                continue
            owner, base, leaf = name.rpartition(".base_layer.")
            plain = f"{owner}.{leaf}" if base else name
            if base and leaf == "weight":
                with torch.no_grad():
                    delta = adapted[owner].get_delta_weight("default")
                    value = (value.float() + delta.float()).to(value.dtype)
            merged[plain] = value
        return merged

    def _save_model(self, folder: Path, weights: dict[str, Tensor]) -> None:
        model = self._model
        if self._adapter is not None:
            # The adapted module tree has other names; a bare model of the same config has ours.
            from transformers import AutoModelForCausalLM

            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(self._loaded.config)
            model.generation_config = self._model.generation_config
        model.save_pretrained(folder, state_dict=weights)
        self._save_tokenizer(folder)

    def _save_tokenizer(self, folder: Path) -> None:
        if self._loaded.tokenizer is not None:
            self._loaded.tokenizer.save_pretrained(folder)

    def _fill_checkpoint(self, folder: Path) -> None:
        from safetensors.torch import save_file

        if self._adapter is not None:
            self._adapter.save_pretrained(folder)
            self._save_tokenizer(folder)
        else:
            # Over the state dict's names, since tied weights have two and buffers have no master.
            master = {id(t.parameter): t.master for t in self._trained.values()}
            state = self._model.state_dict(keep_vars=True)
            self._save_model(folder, {k: master.get(id(v), v).detach() for k, v in state.items()})
        save_file(self._optimiser_tensors(), folder / _OPTIMISER)
        counters = {
            "format": _FORMAT,
            "model": self._loaded.name,
            "method": self.settings.method,
            "steps_taken": self.steps_taken,
            "steps_skipped": self.steps_skipped,
        }
        (folder / _COUNTERS).write_text(json.dumps(counters, indent=2) + "\n")

    def _optimiser_tensors(self) -> dict[str, Tensor]:
        state = self._optimiser.state_dict()["state"]
        return {
            f"{field}:{name}": value.contiguous()
            for i, name in enumerate(self._trained)
            for field, value in state.get(i, {}).items()
        }

    def _load_optimiser(self, path: Path) -> None:
        from safetensors.torch import load_file

        number = {name: i for i, name in enumerate(self._trained)}
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in load_file(path).items():
            field, name = key.split(":", 1)
            state.setdefault(number[name], {})[field] = value
        groups = self._optimiser.state_dict()["param_groups"]
        self._optimiser.load_state_dict({"state": state, "param_groups": groups})

    def _counters_of(self, directory: Path) -> dict[str, Any]:
        path = directory / _COUNTERS
        if not path.is_file() or not (directory / _OPTIMISER).is_file():
            raise ValueError(
                f"checkpoint {directory}: {_COUNTERS} or {_OPTIMISER} is missing; name a "
                "checkpoints/step-NNNNNN folder of a run"
            )
        counters: dict[str, Any] = json.loads(path.read_text())
        if counters["format"] != _FORMAT:
            raise ValueError(
                f"{path}: format {counters['format']} is not {_FORMAT}; resume with the version "
                "of Steelyard that wrote it"
            )
        if counters["method"] != self.settings.method:
            raise ValueError(
                f"{path}: method is {counters['method']!r} but the run says "
                f"{self.settings.method!r}; set [learner].method to the former"
            )
        return counters

    def _saved_masters(self, directory: Path) -> dict[str, Tensor]:
        if self._adapter is not None:
            from peft import load_peft_weights

            saved = load_peft_weights(str(directory), device="cpu")
            prefix = "base_model.model."
            return {
                k.removeprefix(prefix).replace(".weight", ".default.weight"): v
                for k, v in saved.items()
            }
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float32, trust_remote_code=False
        )
        return {name: p.detach() for name, p in model.named_parameters()}

    def _claim_threads(self) -> None:
        """torch's thread count belongs to the calling thread, which may not be the builder's."""
        wanted = self.settings.threads
        if wanted is not None and torch.get_num_threads() != wanted:
            torch.set_num_threads(wanted)


def _with_adapter(model: Any, settings: LearnerSettings) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        target_modules="all-linear",
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.lora_seed)
        adapter = get_peft_model(model, config, autocast_adapter_dtype=True)
    model.eval()
    return adapter


def _accumulate_into(master: Tensor) -> Callable[[Tensor], None]:
    def hook(parameter: Tensor) -> None:
        gradient = parameter.grad
        assert gradient is not None
        if master.grad is None:
            master.grad = gradient.float()
        else:
            master.grad.add_(gradient)
        # Freed at once: the bfloat16 gradients never exist all together.
        parameter.grad = None

    return hook
