"""The learner moves the weights. Three calls: score, then (credit, outside) step, then weights."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from steelyard.learner.batch import Batch
from steelyard.learner.checkpoint import write_directory
from steelyard.learner.critic import CriticModel, ValueFit
from steelyard.learner.forward import BinForward, Outputs
from steelyard.learner.lanes import lanes_of, run_bins
from steelyard.learner.packing import Bin, pack
from steelyard.learner.settings import LearnerSettings
from steelyard.learner.trained import TrainedWeights
from steelyard.models.loading import LoadedModel, load_weights
from steelyard.objective import Critic

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(logp_T, index_T) → value_T. `index_T` says which action tokens of the batch these are,
ascending; those of one segment always come together. float32, on the CPU."""

Observer: TypeAlias = Callable[[Tensor, Tensor], None]
"""(value_T, index_T): is told of some action tokens of the batch, in any order."""


@dataclass(frozen=True, slots=True)
class VocabularyLoss:
    """A term that needs the whole vocabulary.

    `value`: (logit_CV, reference_logit_CV, teacher_logit_CV) → value_C. Logits are float32, already
    divided by the temperature, a chunk of tokens at a time; None where the term does not ask.
    """

    value: Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
    reads_reference: bool = False
    reads_teacher: bool = False


_COUNTERS = "learner.json"
_OPTIMISER = "optimizer.safetensors"
_FORMAT = 1
_CHUNK_TOKENS = 128
"""Tokens whose whole logits exist at once: 128 x 49,152 float32 are 25 MB."""


@final
@dataclass(frozen=True, slots=True)
class Scores:
    """What is known of a batch's tokens before it is learned from; None where nobody asked.

    `after_E` is the critic's value after truncated episodes, 0 after the others.
    """

    logp_T: Tensor
    reference_logp_T: Tensor | None = None
    teacher_logp_T: Tensor | None = None
    value_T: Tensor | None = None
    after_E: Tensor | None = None


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One optimiser step, or several on one batch.

    `loss` is Σ weight · value; `grad_norm` is before clipping; `entropy_mean` is nats per trained
    action token; `nodes` went through the model where `raw_tokens` would have without shared
    prefixes; `value_loss` is the critic's, a weighted mean; `skipped` names why the weights did
    not move (empty if they did).
    """

    loss: float
    grad_norm: float
    entropy_mean: float
    action_tokens: int
    nodes: int
    raw_tokens: int
    bins: int
    seconds: float
    skipped: str = ""
    value_loss: float = 0.0

    @classmethod
    def of_several(cls, steps: Sequence[StepMetrics]) -> StepMetrics:
        """Sums of what was done, means of what was measured."""
        if len(steps) == 1:
            return steps[0]
        tokens = sum(s.action_tokens for s in steps)
        n = len(steps)
        return cls(
            loss=sum(s.loss for s in steps) / n,
            grad_norm=sum(s.grad_norm for s in steps) / n,
            entropy_mean=sum(s.entropy_mean * s.action_tokens for s in steps) / max(1, tokens),
            action_tokens=tokens,
            nodes=sum(s.nodes for s in steps),
            raw_tokens=sum(s.raw_tokens for s in steps),
            bins=sum(s.bins for s in steps),
            seconds=sum(s.seconds for s in steps),
            skipped="" if any(not s.skipped for s in steps) else steps[0].skipped,
            value_loss=sum(s.value_loss for s in steps) / n,
        )


class Learner:
    """Holds the weights and moves them.

    `note` is one sentence for the reader of the run if the model cannot be packed, else empty.
    `critic` adds values to `score` and learns them in `step`; `teacher` adds its log-probs.
    The same steps give the same bits where `settings.lanes` is 1, and otherwise up to rounding.
    Not thread-safe: one thread calls it.
    """

    def __init__(
        self,
        model: LoadedModel,
        settings: LearnerSettings,
        *,
        critic: Critic | None = None,
        teacher: LoadedModel | None = None,
    ) -> None:
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
        self._trained = TrainedWeights(
            [(n, p) for n, p in self._model.named_parameters() if p.requires_grad],
            settings,
            # Loaded again in float32: the file may hold more bits than the compute copy kept.
            lambda: dict(load_weights(model, torch.float32, settings.device).named_parameters()),
        )
        self._critic = CriticModel(critic, model, settings) if critic is not None else None
        self._lanes = self._open_lanes()
        self._teacher = self._frozen(teacher, "teacher") if teacher is not None else None
        self._reference: BinForward | None = None

    def set_reference(self, model: LoadedModel) -> None:
        """Holds `model` as the fixed anchor, whose log-probs `score` then gives.

        Raises:
            ValueError: its vocabulary is not the policy's.
        """
        self._claim_threads()
        self._reference = self._frozen(model, "reference")

    def score(
        self, batch: Batch, *, temperature: float = 1.0, truncated_E: Tensor | None = None
    ) -> Scores:
        """log π(token_t) of every action token under the present weights, and under the frozen
        models that there are; with a critic V before each token, and after truncated episodes."""
        self._claim_threads()
        logp_T, value_T = torch.zeros(len(batch)), torch.zeros(len(batch))
        with torch.no_grad():
            for bin_ in self._pack(batch, None):
                outputs = self._forward.run(bin_)
                logp_T[bin_.index_T], _ = self._forward.logprobs(
                    outputs, bin_, temperature=temperature
                )
                if self._critic is not None:
                    value_T[bin_.index_T] = self._critic.values(bin_, outputs.hidden_PD)
            reference_T, teacher_T = (
                None if frozen is None else self._logp(frozen, batch, None, temperature)
                for frozen in (self._reference, self._teacher)
            )
            if self._critic is None:
                return Scores(logp_T, reference_T, teacher_T)
            after_E = self._end_values(batch, truncated_E)
        return Scores(logp_T, reference_T, teacher_T, value_T, after_E)

    def logprobs(self, batch: Batch, weight_T: Tensor, *, temperature: float = 1.0) -> Tensor:
        """log π(token_t) of the episodes that a step with `weight_T` would run, NaN elsewhere.

        In the same bins, so that with unmoved weights the step sees the same numbers to the last
        bit: in bfloat16 another packing moves them by .02, and an episode's mean by more than
        GSPO's window.
        """
        self._claim_threads()
        return self._logp(self._forward, batch, _active(batch, weight_T), temperature)

    def step(
        self,
        batch: Batch,
        loss: Loss,
        weight_T: Tensor,
        *,
        learning_rate: float,
        temperature: float = 1.0,
        vocabulary: VocabularyLoss | None = None,
        values: ValueFit | None = None,
        on_entropy: Observer = lambda entropy_T, index_T: None,
    ) -> StepMetrics:
        """One optimiser step on Σ_t weight_t · value_t, value_T = loss(logp_T, index_T), to which
        `vocabulary` adds its terms; `values` is what the critic learns meanwhile. `on_entropy`
        hears the entropy (nats) of the distribution that predicted each token that was run. With
        lanes, all three are called from several threads, for different tokens.

        `weight_T` is computed once over the whole batch, denominators included, so that how the
        batch is cut into bins changes nothing. Episodes whose weights are all zero are not run.
        A minibatch is a `weight_T` that is zero outside it.

        The weights stay as they are, and `skipped` says so, if no token has weight or if the loss
        or the gradient is not finite.
        """
        self._claim_threads()
        start = time.perf_counter()
        self._trained.clear()
        bins = self._pack(batch, _active(batch, weight_T))

        def run(forward: BinForward, bin_: Bin) -> tuple[float, float, float]:
            outputs = forward.run(bin_)
            logp_T, entropy_T = forward.logprobs(
                outputs, bin_, temperature=temperature, with_entropy=True
            )
            assert entropy_T is not None
            order = torch.argsort(bin_.index_T)
            value_T = loss(logp_T[order], bin_.index_T[order])[torch.argsort(order)]
            if vocabulary is not None:
                more_T = self._vocabulary_values(forward, bin_, outputs, vocabulary, temperature)
                value_T = value_T + more_T
            part = (weight_T[bin_.index_T] * value_T).sum()
            part.backward()  # type: ignore[no-untyped-call]
            on_entropy(entropy_T, bin_.index_T)
            fitted = 0.0
            if values is not None:
                assert self._critic is not None
                fitted = self._critic.fit(bin_, outputs.hidden_PD, values)
            return float(part.detach()), float(entropy_T.sum()), fitted

        lanes = self._lanes if self._may_share(vocabulary) else self._lanes[:1]
        done = [(0.0, 0.0, 0.0), *run_bins(lanes, bins, run)]
        total, entropy, value_loss = (sum(part) for part in zip(*done, strict=True))
        grad_norm, skipped = (
            self._trained.move(total, learning_rate) if bins else (0.0, "no signal")
        )
        if bins:
            self.steps_skipped += bool(skipped)
            self.steps_taken += not skipped
        if bins and values is not None:
            assert self._critic is not None
            stuck = self._critic.move(value_loss, self.settings.critic_learning_rate)
            skipped = skipped or (f"critic: {stuck}" if stuck else "")
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
            value_loss=0.0 if values is None else value_loss / max(1e-12, float(weight_T.sum())),
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
        size = self._trained.nbytes + (self._critic.nbytes if self._critic is not None else 0)
        write_directory(directory, self._fill_checkpoint, size)

    def load_checkpoint(self, directory: Path) -> None:
        """Takes weights, optimiser state and counters from `save_checkpoint`'s directory.

        Raises:
            ValueError: the directory is not such a checkpoint, or of another model or method.
        """
        from safetensors.torch import load_file

        counters = self._counters_of(directory)
        try:
            self._trained.restore(self._saved_masters(directory), load_file(directory / _OPTIMISER))
        except ValueError as error:
            raise ValueError(
                f"checkpoint {directory}: {error}; it belongs to another model than "
                f"{self._loaded.name!r}"
            ) from None
        if self._critic is not None:
            self._critic.load(directory)
        self.steps_taken = counters["steps_taken"]
        self.steps_skipped = counters["steps_skipped"]

    def forget_moments(self) -> None:
        """Starts AdamW's moments anew, as for another objective: imitation before, RL after."""
        self._trained.forget_moments()

    def align_critic(self) -> None:
        """Starts a critic network from the policy as it is now."""
        if self._critic is not None:
            self._critic.take_trunk(self.weights())

    def _open_lanes(self) -> list[BinForward]:
        """The forwards that a step's bins run through; several share one memory of weights.

        Raises:
            ValueError: more lanes were asked for than this model can have.
        """
        n = 1
        if self._forward.path == "llama":
            n = lanes_of(self.settings, has_critic=self._critic is not None)
        if (self.settings.lanes or 1) > n:
            raise ValueError(
                f"learner.lanes = {self.settings.lanes}: bins run side by side only on the CPU, "
                "through our own Llama path and without a critic; write 1"
            )
        if n == 1:
            return [self._forward]
        forwards = [self._forward.replica() for _ in range(n)]
        for forward in forwards:
            self._trained.gather_from(forward.model.named_parameters())
        return forwards

    def _pack(self, batch: Batch, wanted_T: Tensor | None) -> list[Bin]:
        """Bins that every model at hand can run."""
        forwards = [f for f in (self._forward, self._reference, self._teacher) if f is not None]
        windows = [f.longest_shared for f in forwards if f.longest_shared is not None]
        return pack(
            batch,
            wanted_T,
            max_bin_tokens=self.settings.max_bin_tokens,
            share_prefixes=all(f.share_prefixes for f in forwards),
            longest_shared=min(windows, default=None),
        )

    def _frozen(self, model: LoadedModel, role: str) -> BinForward:
        sizes = [m.config.get_text_config().vocab_size for m in (model, self._loaded)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"{role}.path: {model.name!r} has a vocabulary of {sizes[0]} and the policy one of "
                f"{sizes[1]}; their tokens do not mean the same, choose a model of its family"
            )
        weights = load_weights(model, getattr(torch, self.settings.dtype), self.settings.device)
        weights.requires_grad_(False)
        return BinForward(weights, share_prefixes=self.settings.share_prefixes)

    def _logp(
        self, model: BinForward, batch: Batch, wanted_T: Tensor | None, temperature: float
    ) -> Tensor:
        """log-probs of the wanted tokens (None: all) under `model`, NaN elsewhere."""
        logp_T = torch.full((len(batch),), torch.nan)

        @torch.no_grad()
        def run(forward: BinForward, bin_: Bin) -> None:
            # With the entropy, as a step computes it: the same operations on the same bins.
            logp_T[bin_.index_T], _ = forward.logprobs(
                forward.run(bin_), bin_, temperature=temperature, with_entropy=True
            )

        # Without gradients one forward serves all lanes.
        n = len(self._lanes) if model.path == "llama" else 1
        run_bins([model] * n, self._pack(batch, wanted_T), run)
        return logp_T

    def _end_values(self, batch: Batch, truncated_E: Tensor | None) -> Tensor:
        assert self._critic is not None
        after_E = torch.zeros(batch.n_episodes)
        if truncated_E is not None and bool(truncated_E.any()):
            ends = batch.ends(truncated_E)
            for bin_ in self._pack(ends, None):
                value_T = self._critic.values(bin_, self._forward.run(bin_).hidden_PD)
                after_E[ends.episode_T[bin_.index_T]] = value_T
        return after_E

    def _vocabulary_values(
        self,
        forward: BinForward,
        bin_: Bin,
        outputs: Outputs,
        term: VocabularyLoss,
        temperature: float,
    ) -> Tensor:
        """The term of each action token of the bin, computed once per distinct prediction and
        again in backward, so that the logits of one chunk exist at a time."""
        wanted = (
            self._reference if term.reads_reference else None,
            self._teacher if term.reads_teacher else None,
        )
        with torch.no_grad():
            frozen = [None if f is None else (f, f.run(bin_)) for f in wanted]

        def chunk(own: Outputs, part: slice) -> Tensor:
            student_CV = (forward.logits(own) / temperature).cpu()
            others = [
                None if f is None else (f[0].logits(f[1].rows(part)) / temperature).cpu()
                for f in frozen
            ]
            return term.value(student_CV, *others)

        parts = []
        for start in range(0, len(bin_.node_P), _CHUNK_TOKENS):
            part = slice(start, start + _CHUNK_TOKENS)
            parts.append(
                checkpoint(
                    chunk,
                    outputs.rows(part),
                    part,
                    use_reentrant=False,
                    preserve_rng_state=False,  # it is the process's, and nothing here draws
                )
            )
        return torch.cat(parts).index_select(0, bin_.prediction_T)

    def _may_share(self, term: VocabularyLoss | None) -> bool:
        """Whether several lanes may ask the frozen models at once: other code than our Llama path
        may keep state in its modules."""
        if term is None:
            return True
        asked = (
            self._reference if term.reads_reference else None,
            self._teacher if term.reads_teacher else None,
        )
        return all(frozen is None or frozen.path == "llama" for frozen in asked)

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
            state = self._model.state_dict(keep_vars=True)
            masters = {k: self._trained.master_of(v).detach() for k, v in state.items()}
            self._save_model(folder, masters)
        save_file(self._trained.optimiser_tensors(), folder / _OPTIMISER)
        if self._critic is not None:
            self._critic.save(folder)
        counters = {
            "format": _FORMAT,
            "model": self._loaded.name,
            "method": self.settings.method,
            "steps_taken": self.steps_taken,
            "steps_skipped": self.steps_skipped,
        }
        (folder / _COUNTERS).write_text(json.dumps(counters, indent=2) + "\n")

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


def _active(batch: Batch, weight_T: Tensor) -> Tensor:
    """The tokens of every episode that has a token with weight."""
    active_E = torch.zeros(batch.n_episodes, dtype=torch.bool)
    active_E[batch.episode_T[weight_T != 0]] = True
    return active_E[batch.episode_T]


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
