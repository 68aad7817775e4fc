"""Check that every engine decodes the same text as plain PyTorch, on trained runs and real sentences.

    python tools/verify/engines.py runs/mine runs/other --src data/test.ko --ref data/test.en --lines 200

In fp32 an engine must give the torch engine's bytes, greedy and with a beam, and its logits along the greedy
path must agree to 1e-4, relative to logits above 1.
Where bytes differ, PyTorch computes the margin: in greedy search the difference of the log-probabilities of
the first two bytes that differ, with a beam the difference of the scores of the two texts. A margin below
1e-4 is a near-tie, which is counted and printed; anything else fails, with exit code 1. Other precisions
may differ: their loss of chrF is reported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


import numpy as np
import torch
from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.checkpoints.checkpoint import load_run
from bytenmt.data.text_file import read_bytes
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.interface import PRECISIONS, Engine, EngineSpec, Hypothesis, Options, Request
from bytenmt.decoding.loading import Runtime, load_runs
from bytenmt.decoding.pytorch.forward import source_tensors
from bytenmt.decoding.scheduler import decode
from bytenmt.errors import BytenmtError, DataError
from bytenmt.evaluation.scores import text_scores
from bytenmt.utf8 import BOS, EOS
from tools.bench.records import Record, format_table, write_json

BENCH = "verify/engines"
NEAR = 1e-4  # tolerance of log-probabilities, scores and logits
CAPACITY = 32  # sentences per batch
AnyModel = Model[Any, Any]


class Verdict(NamedTuple):
    """Counts of sentences: equal bytes, and the margins of near-ties and of wrong texts."""

    equal: int
    near: list[float]
    wrong: list[float]


def requests_of(lines: Sequence[bytes], runtime: Runtime) -> list[Request]:
    """Return the requests of `translate` for these lines; for runs without a source a single request."""
    if not runtime.has_source:
        return [Request(None, 300)]
    return [Request(line[: runtime.max_source_bytes], 3 * len(line) + 100) for line in lines]


def decode_best(runtime: Runtime, beam: int, requests: Sequence[Request]) -> list[Hypothesis]:
    """Return the best hypothesis of each request."""
    engine: Engine = runtime.make_engine(Options(beam=beam), CAPACITY)
    found = dict(decode(engine, requests))
    return [found[index][0] for index in range(len(requests))]


def compare(
    model: AnyModel,
    requests: Sequence[Request],
    expected: Sequence[Hypothesis],
    got: Sequence[Hypothesis],
    beam: int,
) -> Verdict:
    """Compare an engine's texts with the reference's."""
    verdict = Verdict(sum(a.text == b.text for a, b in zip(expected, got, strict=True)), [], [])
    for request, a, b in zip(requests, expected, got, strict=True):
        if a.text == b.text:
            continue
        margin = (
            first_byte_margin(model, request, a.text, b.text)
            if beam == 1
            else score_margin(model, request, a.text, b.text)
        )
        (verdict.near if abs(margin) < NEAR else verdict.wrong).append(margin)
    return verdict


def first_byte_margin(model: AnyModel, request: Request, expected: bytes, got: bytes) -> float:
    """Return log p of the reference's byte minus that of the other's, where they first differ."""
    a, b = expected + bytes([EOS]), got + bytes([EOS])
    at = next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    log_p = logits(model, request, a[:at])[-1].log_softmax(dim=-1)
    return float(log_p[a[at]] - log_p[b[at]])


def score_margin(model: AnyModel, request: Request, expected: bytes, got: bytes) -> float:
    """Return the score of the reference's text minus that of the other's, with length penalty 1."""
    scores = []
    for text in (expected, got):
        whole = torch.tensor([*text, EOS])
        log_p = logits(model, request, text).double().log_softmax(dim=-1)
        scores.append(float(log_p.gather(1, whole[:, None]).mean()))
    return scores[0] - scores[1]


@torch.no_grad()
def logits(model: AnyModel, request: Request, text: bytes) -> Tensor:
    """Return PyTorch's logits after every byte of a text, from BOS on: (bytes + 1, 256)."""
    src, src_len = source_tensors([request])
    memory = model.encode(src, src_len)
    read = torch.tensor([[BOS, *text]], dtype=torch.uint8)
    found: Tensor = model(read, memory, model.start(memory))[0][0]
    return found


def logit_difference(
    runtime: Runtime, model: AnyModel, requests: Sequence[Request], texts: Sequence[Hypothesis]
) -> float:
    """Return the largest difference of the engine's logits along these texts, which it is forced to decode.

    It is relative to the logit where that is above 1.
    """
    engine = runtime.make_engine(Options(), 1)
    assert type(engine) is NumbaEngine
    largest = 0.0
    for request, expected in zip(requests, texts, strict=True):
        engine.admit([request._replace(prefix=expected.text)])
        steps = []
        while not engine.finished():
            engine.advance(1)
            steps.append(engine._batch.state.logits[0, 0].copy())
        own = np.stack(steps)[: len(expected.text) + 1]  # further steps are not forced
        theirs = logits(model, request, expected.text).numpy()
        largest = max(largest, float((np.abs(own - theirs) / np.maximum(np.abs(theirs), 1)).max()))
    return largest


def check(run: Path, options: Any) -> Iterator[tuple[Record, bool]]:
    """Yield the records of one run, each with whether it passes."""
    model: AnyModel = load_run(run, torch.device("cpu")).model
    reference = load_runs([run], EngineSpec("torch", "cpu", "fp32", options.threads))
    requests = requests_of(options.src[: options.lines], reference)
    for precision in options.precision:
        own = load_runs([run], EngineSpec("numba", "cpu", precision, options.threads))
        for beam in options.beam:
            case = f"{run.name} numba {precision} beam={beam}"
            expected, got = decode_best(reference, beam, requests), decode_best(own, beam, requests)
            verdict = compare(model, requests, expected, got, beam)
            yield tokens_record(case, verdict, len(requests)), precision != "fp32" or not verdict.wrong
            if precision == "fp32" and beam == 1:
                difference = logit_difference(own, model, requests, expected)
                ratio = difference / NEAR
                yield Record(BENCH, f"{case} logits", difference, "", "allowed", NEAR, ratio), ratio <= 1
            if precision != "fp32" and options.ref and reference.has_source:
                yield chrf_record(case, expected, got, options.ref[: len(requests)]), True


def tokens_record(case: str, verdict: Verdict, n: int) -> Record:
    """Return a record of the number of sentences that equal the reference."""
    note = "torch fp32"
    if verdict.near:
        note += f", {len(verdict.near)} near-ties (margin up to {max(map(abs, verdict.near)):.1e})"
    if verdict.wrong:
        note += f", {len(verdict.wrong)} others (margin up to {max(map(abs, verdict.wrong)):.1e})"
    return Record(BENCH, f"{case} tokens", verdict.equal, "sentences", note, n, verdict.equal / n)


def chrf_record(
    case: str, expected: Sequence[Hypothesis], got: Sequence[Hypothesis], references: Sequence[bytes]
) -> Record:
    """Return a record of the chrF of an engine in its precision, relative to fp32."""
    texts = [line.decode() for line in references]
    own, theirs = (text_scores([h.text.decode() for h in part], texts).chrf for part in (got, expected))
    return Record(BENCH, f"{case} chrF", own, "chrF", "torch fp32", theirs, own / theirs)


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of a text file, compressed or not. Raises DataError."""
    lines = read_bytes(path).tobytes().splitlines()
    if not lines:
        raise DataError(f"{path} is empty: expected lines to translate")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Compare every engine with plain PyTorch, on trained runs.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--src", required=True, metavar="FILE")
    parser.add_argument("--ref", metavar="FILE", help="translations, for chrF")
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--beam", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the records here")
    options = parser.parse_args(arguments)
    records, failed = [], []
    try:
        options.src = read_lines(Path(options.src))
        options.ref = read_lines(Path(options.ref)) if options.ref else []
        for run in options.runs:
            for record, good in check(run, options):
                print(f"{record.case}: {record.value:.6g} ({record.reference})", file=sys.stderr)
                records.append(record)
                failed += [] if good else [record.case]
    except BytenmtError as error:
        sys.exit(f"Error: {error}")
    print(format_table(records))
    if options.json:
        write_json(options.json, records)
    if failed:
        sys.exit(f"Error: checks failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
