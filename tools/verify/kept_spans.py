"""Check that both engines keep the spans of hostile lines, or flag the lines where they do not.

    python tools/verify/kept_spans.py [--lines 2000] [--engine numba torch] [--seed 0]

Lines mix spans of all classes, halves of them, hostile pieces and text (tools/verify/spans.py). A small
random model with a preference for the bytes that spans consist of translates them greedily and with a beam of
4, in both engines. A naive extractor compares source and translation: where a span is lost or gained, the
translation must have the flag `unmet`. Prints the number of translations with that flag, and every unflagged
loss or gain, which is an error.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, before what is installed

import torch

from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import parse_config
from bytenmt.decoding.constraints.constraint_spec import LIMIT, UNMET, ConstraintSpec
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.interface import Engine, Options, Request
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode
from bytenmt.spans.grammar import CLASSES
from bytenmt.utf8 import EOS, N_IDS
from tools.verify.spans import naive_spans, random_line

PREFERRED_BYTES = b"<>{}%$@./:= \"'&[]()-_abcdehnpstwx0123456789,"
ROOM = 80  # bytes by which an output may be longer than its source
CAPACITY = 256  # sentences per batch
SETTINGS = {"greedy": 1, "beam 4": 4}  # beam sizes


def random_model(seed: int) -> Any:
    """Return a small random model in which the bytes of spans are more probable."""
    torch.manual_seed(seed)
    layers = [[8, 3], [8, 3]]
    sizes = {"arch": "convs2s", "d_embedding": 8, "encoder_layers": layers, "decoder_layers": layers}
    model = build_model(parse_config({"model": sizes}).model).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
            if parameter.shape == (N_IDS,):  # of the output
                parameter[list(PREFERRED_BYTES)] += 3
                parameter[EOS] += 2
    return model


def make_engine(kind: str, model: Any, options: Options) -> Engine:
    """Build an engine."""
    if kind == "torch":
        return TorchEngine([model], options, CAPACITY, torch.device("cpu"))
    tensors = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    packed = pack_model(tensors, model.config, "fp32")
    return NumbaEngine([packed], options, CAPACITY)


def check_setting(engine: Engine, rules: ConstraintSpec, lines: list[str]) -> tuple[int, int, int]:
    """Translate the lines; return how many are flagged as unmet, as cut short, and wrong without flag."""
    requests = [
        rules.add_constraint(Request(line.encode(), len(line.encode()) + ROOM, b"", number))
        for number, line in enumerate(lines)
    ]
    unmet = limited = silent = 0
    for number, hypotheses in decode(engine, requests):
        for one in hypotheses:
            flags = rules.flags(requests[number], one.text)
            text = one.text.decode()
            unmet += UNMET in flags
            limited += LIMIT in flags
            if span_texts(lines[number]) != span_texts(text) and UNMET not in flags:
                silent += 1
                print(f"  lost or gained in silence: {lines[number]!r} -> {text!r}")
    return unmet, limited, silent


def span_texts(line: str) -> Counter[str]:
    """Count the spans of a line, as found by the naive extractor."""
    return Counter(line[begin:end] for begin, end, _ in naive_spans(line, CLASSES))


def main() -> None:
    parser = argparse.ArgumentParser(description="Check that both engines keep the spans of hostile lines.")
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", nargs="+", choices=("numba", "torch"), default=["numba", "torch"])
    options = parser.parse_args()
    draw = random.Random(options.seed)
    lines = [random_line(draw) for _ in range(options.lines)]
    n_spans = sum(sum(span_texts(line).values()) for line in lines)
    print(f"{len(lines)} lines with {n_spans} spans")
    rules, model = ConstraintSpec(CLASSES), random_model(options.seed)
    n_silent = 0
    for kind in options.engine:
        for setting, beam in SETTINGS.items():
            began = time.process_time()
            search = Options(beam=beam, tracker=rules.tracker)
            unmet, limited, silent = check_setting(make_engine(kind, model, search), rules, lines)
            n_silent += silent
            print(
                f"{kind}, {setting}: {unmet} flagged as unmet, {limited} cut short, {silent} lost or gained"
                f" in silence, {time.process_time() - began:.0f} s",
                flush=True,
            )
    sys.exit(n_silent > 0)


if __name__ == "__main__":
    main()
