"""Check that a wider beam is not worse than a narrower one, on trained runs and real sentences.

By its own criterion no beam search should lose to greedy search: at most LOST percent of the lines may have a
best hypothesis with a lower score than the greedy text. And on a model with PEAKED percent or more exact
matches in greedy search, the exact matches may not fall by more than FALL points as the beam grows. These
checks are independent of any implementation, while a comparison of two engines only shows that they agree.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bytenmt.checkpoints.weights import StoredWeights, read_run, restored
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.interface import Engine, EngineSpec, Hypothesis, Options, Request
from bytenmt.decoding.loading import load_runs
from bytenmt.decoding.scheduler import decode
from bytenmt.decoding.search.state import DONE
from bytenmt.distributed import pick_device
from bytenmt.evaluation.scores import text_scores
from tools.bench.records import Record

BENCH = "verify/beams"
BEAMS = (1, 2, 5, 12)
LOST, PEAKED, FALL = 0.5, 75.0, 0.5  # percent of lines; percent and points of exact match
CAPACITY = 32  # sentences per batch


class SearchResult(NamedTuple):
    """The result of one beam size.

    hypotheses: the best one of each line; steps: of the search per line, None if the engine does not count
    them; seconds: of the whole search.
    """

    hypotheses: list[Hypothesis]
    steps: float | None
    seconds: float


class CountingEngine(NumbaEngine):
    """A CPU engine that counts the steps of finished sentences."""

    n_steps = 0

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        state = self._batch.state
        self.n_steps += int(state.step[state.state == DONE].sum())
        return super().finished()


def run_search(engine: Engine, requests: Sequence[Request]) -> SearchResult:
    """Decode all requests, longest first, so that the batch stays full as long as possible."""
    order = sorted(range(len(requests)), key=lambda i: -len(requests[i].source or b""))
    dict(decode(engine, requests[:1]))  # warm-up
    began = time.perf_counter()
    found = dict(decode(engine, [requests[i] for i in order]))
    seconds = time.perf_counter() - began
    best = {order[i]: hypotheses[0] for i, hypotheses in found.items()}
    steps = engine.n_steps / (1 + len(requests)) if type(engine) is CountingEngine else None
    return SearchResult([best[i] for i in range(len(requests))], steps, seconds)


def requests_of(lines: Sequence[bytes]) -> list[Request]:
    """Return the requests of `translate` for these lines."""
    return [Request(line, 3 * len(line) + 100, number=number) for number, line in enumerate(lines)]


def numba_engine(contents: StoredWeights, precision: str, beam: int, threads: int | None) -> Engine:
    """Build a CPU engine that counts steps."""
    packed = pack_model(restored(contents.arrays), contents.config.model, precision)
    return CountingEngine([packed], Options(beam=beam), CAPACITY, threads or 1)


def check_beams(
    run: Path,
    lines: Sequence[bytes],
    references: Sequence[bytes],
    engines: Sequence[str],
    precision: str,
    beams: Sequence[int] = BEAMS,
    threads: int | None = 1,
) -> Iterator[tuple[Record, bool]]:
    """Yield a record for each engine and beam, with whether it passes. Greedy search always comes first."""
    requests, texts = requests_of(lines), [line.decode() for line in references]
    contents = read_run(run)[1]
    device = pick_device("auto" if "cuda-graph" in engines else "cpu").type
    for name in engines:
        runtime = load_runs([run], EngineSpec(name, device, precision, threads)) if name != "numba" else None
        greedy: SearchResult | None = None
        matches: list[float] = []
        for beam in sorted({1, *beams}):
            engine = (
                runtime.engine_maker(Options(beam=beam))(CAPACITY)
                if runtime
                else numba_engine(contents, precision, beam, threads)
            )
            now = run_search(engine, requests)
            greedy = greedy or now
            lost = (
                100
                * sum(
                    a.score < b.score - 1e-4 for a, b in zip(now.hypotheses, greedy.hypotheses, strict=True)
                )
                / len(requests)
            )
            scores = text_scores([h.text.decode() for h in now.hypotheses], texts)
            matches.append(scores.exact_match)
            good = lost <= LOST and (matches[0] < PEAKED or matches[-1] >= max(matches) - FALL)
            steps = "" if now.steps is None else f"{now.steps:.1f} steps a line, "
            note = (
                f"greedy; chrF {scores.chrf:.2f}, {lost:.1f} % of lines below greedy,"
                f" {steps}{now.seconds:.2f} s"
            )
            case = f"{run.name} {name} {precision} beam={beam} exact match"
            ratio = scores.exact_match / max(matches[0], 1e-9)
            yield Record(BENCH, case, scores.exact_match, "%", note, matches[0], ratio), good
