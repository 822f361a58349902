"""The in-process engine: a thread of its own that decodes for many sessions at once."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from steelyard.engines.backend import Backend, Row, common_prefix
from steelyard.engines.base import EngineError, EngineStats, Sample
from steelyard.engines.choosing import choose_backend
from steelyard.engines.drafting import Draft, Drafter
from steelyard.engines.fingerprint import fingerprint
from steelyard.engines.sampling import UniformStream, draw
from steelyard.engines.settings import EngineSettings
from steelyard.models import (
    LoadedModel,
    load_weights,
    release_memory,
    release_threads,
    use_threads,
)


@dataclass(eq=False, slots=True)
class _Request:
    """One call of `sample` on its way: what it may still produce, and what it has."""

    session: TorchSession
    token_ids: list[int]
    max_new_tokens: int
    future: Future[Sample]
    sampled: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)
    version: list[int] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Load:
    weights: Mapping[str, Tensor]
    version: int
    future: Future[None]


@dataclass(eq=False, slots=True)
class _Fingerprint:
    future: Future[str]


@dataclass(eq=False, slots=True)
class _Close:
    session: TorchSession


_Command: TypeAlias = _Request | _Load | _Fingerprint | _Close

_T = TypeVar("_T")


class TorchSession:
    """One episode's sequence in a TorchEngine; made by `TorchEngine.open`."""

    def __init__(self, engine: TorchEngine, number: int, seed: int) -> None:
        self.number = number
        self._engine = engine
        # Of the engine's thread:
        self.row = Row()
        self.uniforms = UniformStream(seed)
        self.closed = False

    async def sample(self, token_ids: Sequence[int], *, max_new_tokens: int) -> Sample:
        """See `Session.sample`. A sample is also cut where the context limit is reached."""
        return await asyncio.wrap_future(self._engine.request(self, token_ids, max_new_tokens))

    def close(self) -> None:
        """See `Session.close`. A call of `sample` that is under way gets an EngineError."""
        self._engine.close_session(self)


class TorchEngine:
    """Samples for many sessions at once, on its own copy of a model's weights.

    Sessions need not be synchronised: in each decoding step, every session that waits for tokens
    has a row, up to `max_rows`; the others wait in order of arrival. With `deterministic`, turns
    are in lockstep instead: a wave starts when every open session waits, takes them in the order
    in which they were opened, and ends before anything else happens. So open all sessions of a
    batch before the first of them samples.

    Args:
        model: a LoadedModel, or a Hugging Face causal LM (copied).
        stop_ids: ids that end a sample; a LoadedModel brings its own.
        version: the policy version of the initial weights.

    Raises:
        ValueError: settings that do not go with the model or this machine.
    """

    def __init__(
        self,
        model: LoadedModel | Any,
        settings: EngineSettings,
        *,
        stop_ids: Collection[int] | None = None,
        version: int = 0,
    ) -> None:
        if stop_ids is None:
            if not isinstance(model, LoadedModel):
                raise ValueError("TorchEngine needs stop_ids when it is given a bare model")
            stop_ids = model.stop_ids
        if settings.device.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError(
                f'[engine].device = {settings.device!r}: torch sees no CUDA device; use "cpu"'
            )
        self.settings = settings
        self._stop_ids = frozenset(stop_ids)
        self._version = version
        self._commands: deque[_Command] = deque()
        self._wake = threading.Condition()
        self._error: BaseException | None = None
        self._stopping = False
        self._sessions: set[TorchSession] = set()
        self._opened = 0
        self._held: list[_Request] = []  # in lockstep, until the next wave starts
        self._queue: list[_Request] = []
        self._leaving: list[TorchSession] = []  # in lockstep, closed since the last wave
        self._active: dict[Row, _Request] = {}
        self._stats = EngineStats()
        dtype = getattr(torch, settings.dtype)
        hf: Any = (
            load_weights(model, dtype, settings.device)
            if isinstance(model, LoadedModel)
            else _copied(model, dtype, settings.device)
        )
        limit = getattr(hf.config, "max_position_embeddings", None) or settings.max_context_tokens
        self.max_context_tokens = min(settings.max_context_tokens, int(limit))
        self._known_names = frozenset(hf.state_dict())
        self._backend: Backend
        self._backend, self.note = choose_backend(hf, settings)
        # What others said before must not matter in lockstep: a resumed run has not heard it.
        drafts = self._backend.checks_guesses and not settings.deterministic
        self._drafter = Drafter(settings.draft_tokens if drafts else 0, self._stop_ids)
        release_threads()  # of the builder's thread
        self._thread = threading.Thread(target=self._run, name="steelyard-engine", daemon=True)
        self._thread.start()

    # The asyncio side and other threads ---------------------------------------------------------

    def open(self, seed: int) -> TorchSession:
        """See `Engine.open`."""
        with self._wake:
            self._check_alive()
            session = TorchSession(self, self._opened, seed)
            self._opened += 1
            self._sessions.add(session)
            return session

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See `Engine.load`.

        `weights` must hold still until this returns. With `deterministic`, the swap waits for the
        end of the wave.

        Raises:
            ValueError: a tensor is missing, unknown, or of another shape.
            EngineError: the engine failed, or holds other weights than it was handed.
        """
        future: Future[None] = Future()
        self._post(_Load(weights, version, future))
        future.result()

    def fingerprint(self) -> str:
        """See `Engine.fingerprint`."""
        future: Future[str] = Future()
        self._post(_Fingerprint(future))
        return future.result()

    @property
    def backend(self) -> str:
        """Which forward pass runs: "llama" or "generic"."""
        return self._backend.name

    @property
    def version(self) -> int:
        """The policy version of the weights in use."""
        return self._version

    @property
    def stats(self) -> EngineStats:
        """See `EngineStats`."""
        return self._stats

    def close(self) -> None:
        """See `Engine.close`."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def request(
        self, session: TorchSession, token_ids: Sequence[int], max_new_tokens: int
    ) -> Future[Sample]:
        """Queues a request; `TorchSession.sample` awaits it."""
        room = self.max_context_tokens - len(token_ids)
        if not token_ids:
            raise ValueError("cannot sample after zero tokens: a prompt needs at least one")
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens = {max_new_tokens}: it must be at least 1")
        if room < 1:
            raise ValueError(
                f"the sequence has {len(token_ids)} tokens, which leaves no room under "
                f"max_context_tokens = {self.max_context_tokens}; end the episode or raise it"
            )
        future: Future[Sample] = Future()
        request = _Request(session, list(token_ids), min(max_new_tokens, room), future)
        with self._wake:
            if session not in self._sessions:
                raise EngineError("this session is closed")
        self._post(request)
        return future

    def close_session(self, session: TorchSession) -> None:
        """Queues the end of a session; `TorchSession.close` calls it."""
        with self._wake:
            if session not in self._sessions:
                return
            self._sessions.discard(session)
            if self._error is None and not self._stopping:
                self._commands.append(_Close(session))
                self._wake.notify()

    def _post(self, command: _Command) -> None:
        with self._wake:
            self._check_alive()
            self._commands.append(command)
            self._wake.notify()

    def _check_alive(self) -> None:
        if self._stopping:
            raise EngineError("the engine is closed")
        if self._error is not None:
            raise EngineError(f"the engine failed: {self._error}") from self._error

    # The engine's thread ------------------------------------------------------------------------

    def _run(self) -> None:
        if self.settings.threads is not None:
            use_threads(self.settings.threads)
        try:
            with torch.inference_mode():
                while self._take_commands():
                    self._admit()
                    if self._active:
                        self._step()
            self._fail(EngineError("the engine was closed"))
        except BaseException as error:  # whatever it was, nobody may wait for ever
            self._fail(error)

    def _take_commands(self) -> bool:
        """Obeys what was asked since the last step; waits if there is nothing to decode."""
        with self._wake:
            while not (self._stopping or self._commands or self._active or self._queue):
                self._rest()
                self._wake.wait()
            if self._stopping:
                return False
            # In lockstep, what arrives during a wave is obeyed after it: timing must not matter.
            if self.settings.deterministic and (self._active or self._queue):
                return True
            commands = list(self._commands)
            self._commands.clear()
        if self.settings.deterministic:
            commands.sort(key=_lockstep_order)
        while commands:
            try:
                self._obey(commands[0])
            except BaseException:
                with self._wake:  # those who asked must still be told
                    self._commands.extendleft(reversed(commands))
                raise
            commands.pop(0)
        if self.settings.deterministic:
            self._start_wave()
        return True

    def _rest(self) -> None:
        """Before going idle, gives back what others can use meanwhile."""
        # In lockstep whether a cache is warm must not depend on how soon the next wave comes.
        if not self._sessions and not self.settings.deterministic:
            self._backend.reset()
            release_memory()
        release_threads()

    def _start_wave(self) -> None:
        """Lets the held requests go if every open session has one, in order of opening."""
        with self._wake:
            waiting = {request.session for request in self._held}
            if not self._held or self._commands or not self._sessions <= waiting:
                return
        # Rows leave in order too: where a row lies in the batch may change its last bits.
        for session in sorted(self._leaving, key=lambda session: session.number):
            self._backend.forget(session.row)
        self._leaving = []
        self._queue = sorted(self._held, key=lambda request: request.session.number)
        self._held = []

    def _obey(self, command: _Command) -> None:
        if isinstance(command, _Request):
            self._receive(command)
        elif isinstance(command, _Close):
            self._end_session(command.session)
        elif isinstance(command, _Load):
            self._load(command)
        else:
            _deliver(command.future, fingerprint(self._backend.weights()))

    def _receive(self, request: _Request) -> None:
        session = request.session
        if session.closed:
            _refuse(request.future, EngineError("the session is closed"))
            return
        for earlier in [r for r in self._requests() if r.session is session]:
            if earlier.future.cancelled():
                self._drop(earlier)
        if any(r.session is session for r in self._requests()):
            _refuse(request.future, EngineError("a session samples one turn at a time"))
        else:
            (self._held if self.settings.deterministic else self._queue).append(request)

    def _requests(self) -> list[_Request]:
        return [*self._active.values(), *self._queue, *self._held]

    def _end_session(self, session: TorchSession) -> None:
        session.closed = True
        for request in self._requests():
            if request.session is session:
                self._drop(request)
                _refuse(request.future, EngineError("the session was closed while it sampled"))
        if self.settings.deterministic:
            self._leaving.append(session)
        else:
            self._backend.forget(session.row)

    def _drop(self, request: _Request) -> None:
        self._active.pop(request.session.row, None)
        for requests in (self._queue, self._held):
            if request in requests:
                requests.remove(request)

    def _load(self, load: _Load) -> None:
        started = time.perf_counter()
        held = self._backend.weights()
        try:
            self._check_weights(load.weights, held)
        except ValueError as error:
            _refuse(load.future, error)
            return
        new = {
            name: load.weights[name].detach().to(device=old.device, dtype=old.dtype)
            for name, old in held.items()
        }
        del held
        self._backend.reset()
        self._backend.load(new)
        release_memory()
        self._version = load.version
        if fingerprint(self._backend.weights()) != fingerprint(new):
            raise EngineError(f"version {load.version}: the weights in use are not those given")
        seconds = time.perf_counter() - started
        self._stats = replace(self._stats, load_seconds=self._stats.load_seconds + seconds)
        _deliver(load.future, None)

    def _check_weights(self, given: Mapping[str, Tensor], held: Mapping[str, Tensor]) -> None:
        if missing := sorted(held.keys() - given.keys()):
            raise ValueError(f"new weights lack {len(missing)} tensors, {missing[0]!r} first")
        if unknown := sorted(given.keys() - self._known_names):
            raise ValueError(
                f"new weights have {len(unknown)} tensors that this model has not, "
                f"{unknown[0]!r} first; merge adapters before loading"
            )
        for name, old in held.items():
            if given[name].shape != old.shape:
                raise ValueError(
                    f"new weights: {name} has shape {tuple(given[name].shape)}, "
                    f"the model has {tuple(old.shape)}"
                )

    def _admit(self) -> None:
        """Gives rows to the requests that have waited longest."""
        room = self.settings.max_rows - len(self._active)
        for request in self._queue[:room]:
            row = request.session.row
            row.set_tokens(request.token_ids)
            self._count(reused=row.cached, prefilled=len(row.tokens) - row.cached)
            self._drafter.read(row.tokens, row.cached)
            self._active[row] = request
        del self._queue[:room]

    def _step(self) -> None:
        started = time.perf_counter()
        for request in [r for r in self._active.values() if r.future.cancelled()]:
            self._drop(request)
        if not self._active:
            return
        drafts = self._draft()
        logits, rows = self._backend.next_logits(list(self._active))
        uniforms: list[float] = []
        for row in rows:
            uniforms += self._active[row].session.uniforms.upcoming(1 + row.guesses)
        tokens, logp = draw(
            logits, torch.tensor(uniforms, dtype=torch.float64), self.settings.temperature
        )
        drawn = zip(tokens.tolist(), logp.tolist(), strict=True)
        done: list[tuple[_Request, bool]] = []
        n_sampled = n_held = 0
        for row in rows:
            request, guesses = self._active[row], row.take_guesses()
            sampled = self._take(request, guesses, list(islice(drawn, 1 + len(guesses))))
            n_sampled += len(sampled)
            n_held += common_prefix(guesses, sampled)
            if row in drafts:
                self._drafter.learn(drafts[row], sampled)
            self._drafter.read(row.tokens, len(row.tokens) - len(sampled))
            stopped = sampled[-1] in self._stop_ids
            if stopped or len(request.sampled) >= request.max_new_tokens:
                del self._active[row]
                done.append((request, stopped))
        # Counted first: who has the sample may read the counts.
        self._count(
            sampled=n_sampled,
            guessed=len(uniforms) - len(rows),
            held=n_held,
            steps=1,
            seconds=time.perf_counter() - started,
        )
        for request, stopped in done:
            sample = Sample(request.sampled, request.logp, request.version, stopped)
            _deliver(request.future, sample)

    def _draft(self) -> dict[Row, Draft]:
        """Lets the rows that only decode end in guesses."""
        decoding = {
            row: request.max_new_tokens - len(request.sampled) - 1
            for row, request in self._active.items()
            if row.cached == len(row.tokens) - 1
        }
        drafts, n_checked = self._drafter.guess([(row.tokens, n) for row, n in decoding.items()])
        for row, draft in zip(decoding, drafts, strict=True):
            guesses = draft.tokens[:n_checked]
            row.tokens += guesses
            row.guesses = len(guesses)
        return dict(zip(decoding, drafts, strict=True))

    def _take(
        self, request: _Request, guesses: Sequence[int], drawn: Sequence[tuple[int, float]]
    ) -> list[int]:
        """Puts what was drawn in the place of the guesses, as far as these were right: what was
        drawn after a wrong one followed another sequence. Returns what was put there."""
        sampled: list[int] = []
        for i, (token, log_prob) in enumerate(drawn):
            sampled.append(token)
            request.logp.append(log_prob)
            if token in self._stop_ids or guesses[i : i + 1] != [token]:
                break
        request.sampled += sampled
        request.version += [self._version] * len(sampled)
        request.session.uniforms.use(len(sampled))
        row = request.session.row
        row.tokens += sampled
        row.cached = len(row.tokens) - 1
        return sampled

    def _count(
        self,
        *,
        sampled: int = 0,
        prefilled: int = 0,
        reused: int = 0,
        guessed: int = 0,
        held: int = 0,
        steps: int = 0,
        seconds: float = 0.0,
    ) -> None:
        old = self._stats
        self._stats = replace(
            old,
            sampled_tokens=old.sampled_tokens + sampled,
            prefilled_tokens=old.prefilled_tokens + prefilled,
            reused_tokens=old.reused_tokens + reused,
            guessed_tokens=old.guessed_tokens + guessed,
            held_guesses=old.held_guesses + held,
            steps=old.steps + steps,
            busy_seconds=old.busy_seconds + seconds,
        )

    def _fail(self, error: BaseException) -> None:
        """Tells everyone who waits, and everyone who comes later."""
        with self._wake:
            self._error = error
            commands = list(self._commands)
            self._commands.clear()
        told = error
        if not isinstance(error, EngineError):
            told = EngineError(f"the engine failed: {error}")
            told.__cause__ = error
        for request in self._requests():
            _refuse(request.future, told)
        for command in commands:
            if not isinstance(command, _Close):
                _refuse(command.future, told)
        self._active.clear()
        self._queue, self._held = [], []


def _copied(model: Any, dtype: torch.dtype, device: str) -> Any:
    """A copy with parameters of type `dtype`; buffers (rotary frequencies) keep their precision."""
    copied = copy.deepcopy(model).to(device).eval()
    for parameter in copied.parameters():
        parameter.data = parameter.data.to(dtype)
    return copied


def _lockstep_order(command: _Command) -> tuple[int, int]:
    """Sessions end first, then weights change, then turns begin; by session where there is one."""
    if isinstance(command, _Close):
        return 0, command.session.number
    if isinstance(command, _Request):
        return 2, command.session.number
    return 1, 0


def _deliver(future: Future[_T], result: _T) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(result)


def _refuse(future: Future[Any], error: BaseException) -> None:
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_exception(error)
