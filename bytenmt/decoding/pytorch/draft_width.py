"""Measure how many drafted bytes per pass are worth their cost, on any device, once for each engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, process_time

import numpy as np
import numpy.typing as npt
import torch

from bytenmt.decoding.drafts.table import Speculation
from bytenmt.decoding.interface import Options

WIDTHS = (2, 4, 8)  # drafted bytes per pass that are tried; one costs as much as two
# Times are noisy: widths are measured in turn for so many seconds and rounds, and the minimum counts.
ENOUGH, ROUNDS, MOST_ROUNDS = 0.05, 2, 10
CLOSE = (
    0.8  # of the best bytes per second: widths that promise less in the first round are not measured again
)
MARGIN = 1.05  # a width must promise so many times the bytes per second without drafts


def check(speculation: Speculation | None, options: Options) -> None:
    """Raise ValueError for a search that cannot use drafts."""
    if speculation is not None and (options.beam > 1 or options.no_repeat_ngram_size):
        raise ValueError(f"{options}: drafts are for one beam and no n-gram blocking")


def best_width(accepted: npt.NDArray[np.float32], price: Callable[[int], float]) -> int:
    """Return how many bytes to draft per pass, 0 for none.

    accepted (MOST_DRAFTED,): see DraftTable. price(width): measures the seconds of a pass with so many
    drafted bytes; a wider pass costs no less.
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
                break  # wider ones are not worth it either
        if spent > ENOUGH:
            enough = CLOSE * yields[best] / least[best]
            # The first measurement may include what a process does once.
            tried = [m for m in sorted(least) if m == 0 or yields[m] / least[m] > enough]
            if n_rounds >= ROUNDS or tried == [0]:
                break
    return best


def seconds(run: Callable[[], None], device: torch.device) -> float:
    """Return the seconds of one run, more than 0: on a CPU, the CPU time of this process."""
    on_cpu = device.type == "cpu"
    begin = process_time() if on_cpu else perf_counter()
    run()
    if not on_cpu:
        torch.cuda.synchronize(device)
    # The clock of a process with limited CPU time moves in ticks that are longer than a pass.
    return max((process_time() if on_cpu else perf_counter()) - begin, 1e-9)
