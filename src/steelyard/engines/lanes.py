"""The fast back end in lanes: parts of the rows run side by side, on CPU threads of their own.

A pass is a thousand small operations, and on several threads each of them ends with the slowest.
Lanes wait for each other once a pass. In return every lane reads the weights from memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import torch
from torch import Tensor

from steelyard.engines.backend import Row
from steelyard.engines.fast import FastBackend
from steelyard.models import release_threads, use_threads


class LaneBackend:
    """Gives each row to one of `lanes`, and the rows of one prompt to the same.

    The lanes share one model; `threads` is how many CPU threads each of them has. A row stays where
    it is: when other rows have left, one lane may have more to do than the next.
    """

    name = FastBackend.name
    checks_guesses = FastBackend.checks_guesses

    def __init__(self, lanes: Sequence[FastBackend], threads: int) -> None:
        assert len(lanes) > 1
        self._lanes = list(lanes)
        self._lane_of: dict[Row, int] = {}
        all_threads = torch.get_num_threads()
        # One thread for each lane, for good: what it allocates stays near it.
        self._workers = [ThreadPoolExecutor(1, f"steelyard-lane-{i}") for i in range(len(lanes))]
        for worker in self._workers:
            worker.submit(use_threads, threads).result()
        use_threads(all_threads)

    def next_logits(self, rows: Sequence[Row]) -> tuple[Tensor, list[Row]]:
        self._settle(rows)
        parts = [[row for row in rows if self._lane_of[row] == i] for i in range(len(self._lanes))]
        busy = [i for i, part in enumerate(parts) if part]
        if len(busy) == 1:  # with all the threads of the caller, then
            return self._lanes[busy[0]].next_logits(rows)
        release_threads()  # of the caller, who waits
        futures = [self._workers[i].submit(_next_logits, self._lanes[i], parts[i]) for i in busy]
        wait(futures)  # for all of them, also if one fails: the others still write
        done = [future.result() for future in futures]
        return torch.cat([logits for logits, _ in done]), [row for _, part in done for row in part]

    def forget(self, row: Row) -> None:
        lane = self._lane_of.pop(row, None)
        if lane is not None:
            self._lanes[lane].forget(row)

    def reset(self) -> None:
        self._lane_of.clear()
        for lane in self._lanes:
            lane.reset()

    def load(self, weights: Mapping[str, Tensor]) -> None:
        self._lanes[0].load(weights)

    def weights(self) -> Mapping[str, Tensor]:
        return self._lanes[0].weights()

    def _settle(self, rows: Sequence[Row]) -> None:
        """Finds a lane for the rows that have none: where their prompt is, or is least to do."""
        homeless = [row for row in rows if row not in self._lane_of]
        if not homeless:
            return
        lane_of_prompt = {_prompt(row): lane for row, lane in self._lane_of.items()}
        load = Counter(self._lane_of[row] for row in rows if row in self._lane_of)
        for row in homeless:
            lane = lane_of_prompt.get(_prompt(row))
            if lane is None:
                lane = min(range(len(self._lanes)), key=lambda i: load[i])
            self._lane_of[row] = lane_of_prompt[_prompt(row)] = lane
            load[lane] += 1


def _prompt(row: Row) -> tuple[int, ...]:
    return tuple(row.tokens[: row.prompt_tokens])


@torch.inference_mode()
def _next_logits(lane: FastBackend, rows: list[Row]) -> tuple[Tensor, list[Row]]:
    try:
        return lane.next_logits(rows)
    finally:
        release_threads()
