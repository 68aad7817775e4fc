"""How many drafted bytes a pass pay, on any device: measured, once for each engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, process_time

import numpy as np
import numpy.typing as npt
import torch

from bytenmt.decoding.drafts.table import Speculation
from bytenmt.decoding.interface import Options

WIDTHS = (2, 4, 8)  # drafted bytes a pass of which the best is measured; one costs as much as two
# Prices are noisy: they are measured in turn, until so many seconds and rounds are spent; the least counts.
ENOUGH, ROUNDS, MOST_ROUNDS = 0.05, 2, 10
CLOSE = 0.8  # of the best bytes a second: what promises less in the first round is not measured again
MARGIN = 1.05  # a width must promise so many times the bytes a second without drafts: prices are noisy


def check(speculation: Speculation | None, options: Options) -> None:
    """Raise ValueError for a search that cannot use drafts."""
    if speculation is not None and (options.beam > 1 or options.no_repeat_ngram_size):
        raise ValueError(f"{options}: drafts are for one beam and no n-gram blocking")


def best_width(accepted: npt.NDArray[np.float32], price: Callable[[int], float]) -> int:
    """Return how many bytes to draft a pass, 0: none.

    accepted (MOST_DRAFTED,): see table.Table. price: seconds of a pass that reads so many drafted bytes,
    measured anew at each call; a wider one costs no less.
    """
    yields = 1 + np.pad(accepted.astype(float), (1, 0)).cumsum()  # bytes that are expected of a pass
    if yields[-1] <= MARGIN:
        return 0
    yields[0] *= MARGIN
    least: dict[int, float] = {}
    tried: Sequence[int] = (0, *WIDTHS)
    best, spent = 0, 0.0
    for n_rounds in range(1, MOST_ROUNDS + 1):
        for width in tried:
            cost = price(width)
            spent += cost
            least[width] = min(cost, least.get(width, cost))
            best = max(least, key=lambda m: yields[m] / least[m])
            if yields[-1] / least[width] < yields[best] / least[best]:
                break  # what is wider does not pay either
        if spent > ENOUGH:
            enough = CLOSE * yields[best] / least[best]
            # What came first may have paid for what a process does once.
            tried = [m for m in sorted(least) if m == 0 or yields[m] / least[m] > enough]
            if n_rounds >= ROUNDS or tried == [0]:
                break
    return best


def seconds(run: Callable[[], None], device: torch.device) -> float:
    """Return the seconds of one run, more than 0; on a CPU, which others use too, of this process alone."""
    on_cpu = device.type == "cpu"
    begin = process_time() if on_cpu else perf_counter()
    run()
    if not on_cpu:
        torch.cuda.synchronize(device)
    # The clock of a process whose CPU time is limited moves in ticks, which are longer than a pass.
    return max((process_time() if on_cpu else perf_counter()) - begin, 1e-9)
