"""Compare decoding with CTranslate2's Transformer with random weights, on as many threads.

Whole sentences of 100 bytes, in text bytes per second, both encoders included. Preset base is
compared with a common configuration, 6 + 6 layers of 512 on 8,000 subwords of 4.2 bytes each, and
preset fast with 6 + 2 layers; bytenmt decodes 100 bytes where the peer decodes 24 subwords. Ratios
are speed-ups of bytenmt.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from bytenmt.decoding.engine import Engine
from bytenmt.decoding.scheduler import decode
from tools.bench.records import Record
from tools.bench.steps import (
    BENCH,
    SOURCE_BYTES,
    Case,
    make_engine,
    measure_in_turn,
    random_requests,
)
from tools.extras import import_package

ROUNDS_RATIO = 2  # more rounds than in other benchmarks, because here a measurement is a single try
BYTES_PER_SUBWORD = 4.2
SUBWORDS = round(SOURCE_BYTES / BYTES_PER_SUBWORD)  # of a sentence
BATCHES = 1, 8, 32  # sentences per batch
SPECIALS = ["<unk>", "<s>", "</s>"]
PEER_TYPES = {"fp32": "float32", "int8": "int8"}  # CTranslate2's names


class Shape(NamedTuple):
    """A Transformer: layers of encoder and decoder, width, inner width, heads, tokens."""

    encoder_layers: int
    decoder_layers: int
    d: int
    d_inner: int
    n_heads: int
    n_tokens: int


WHOLE = {  # for whole sentences: a deep decoder for preset base, a shallow one for fast
    preset: Shape(6, n_layers, 512, 2048, 8, 8_000 - len(SPECIALS))
    for preset, n_layers in (("base", 6), ("fast", 2))
}


class Peer:
    """A CTranslate2 Transformer on one worker with some threads."""

    def __init__(self, folder: Path, precision: str, threads: int) -> None:
        self._translator = import_package("ctranslate2", "bench").Translator(
            str(folder), device="cpu", compute_type=PEER_TYPES[precision], intra_threads=threads
        )

    def seconds(self, sources: Sequence[Sequence[str]], length: int, beam: int = 1) -> float:
        """Return the time of translating sentences to outputs of `length` tokens."""
        started = time.perf_counter()
        lengths = {"min_decoding_length": length, "max_decoding_length": length}
        results = self._translator.translate_batch(
            sources, beam_size=beam, return_scores=False, **lengths
        )
        took = time.perf_counter() - started
        if any(len(result.hypotheses[0]) != length for result in results):
            raise RuntimeError("the peer's outputs do not have the requested length")
        return took


def write_model(shape: Shape, folder: Path, quantization: str | None = None) -> None:
    """Write a Transformer with random weights to a folder.

    quantization: the type of the matrices in the file, by CTranslate2's name (default: float32).
    """
    spec = import_package("ctranslate2", "bench").specs.TransformerSpec.from_config(
        (shape.encoder_layers, shape.decoder_layers), shape.n_heads
    )
    draw = np.random.default_rng(1)
    d = shape.d
    tokens = [*SPECIALS, *(f"t{i}" for i in range(shape.n_tokens))]

    def fill(part: Any, *size: int, bias: bool = True) -> None:
        part.weight = draw.standard_normal(size, np.float32) * np.float32(size[1] ** -0.5)
        if bias:
            part.bias = np.zeros(size[0], np.float32)

    def norm(part: Any) -> None:
        part.gamma = np.ones(d, np.float32)
        part.beta = np.zeros(d, np.float32)

    fill(spec.encoder.embeddings[0], len(tokens), d, bias=False)
    fill(spec.decoder.embeddings, len(tokens), d, bias=False)
    for side in (spec.encoder, spec.decoder):
        norm(side.layer_norm)
        for layer in side.layer:
            fill(layer.self_attention.linear[0], 3 * d, d)
            fill(layer.self_attention.linear[1], d, d)
            fill(layer.ffn.linear_0, shape.d_inner, d)
            fill(layer.ffn.linear_1, d, shape.d_inner)
            norm(layer.self_attention.layer_norm)
            norm(layer.ffn.layer_norm)
    for layer in spec.decoder.layer:
        for part, width in zip(layer.attention.linear, (d, 2 * d, d), strict=True):
            fill(part, width, d)
        norm(layer.attention.layer_norm)
    fill(spec.decoder.projection, len(tokens), d)
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    if quantization is not None:
        spec.optimize(quantization=quantization)
    spec.save(str(folder))


def random_sources(shape: Shape, n: int, length: int) -> list[list[str]]:
    """Return n random sentences for the peer, of `length` tokens including EOS."""
    draw = random.Random(1)
    tokens = iter(lambda: f"t{draw.randrange(shape.n_tokens)}", None)
    return [[*islice(tokens, length - 1), "</s>"] for _ in range(n)]


def supported_precisions() -> list[str]:
    """Return the precisions that CTranslate2 supports on this processor."""
    supported = import_package("ctranslate2", "bench").get_supported_compute_types("cpu")
    return [name for name, theirs in PEER_TYPES.items() if theirs in supported]


def peer_records(options: Any) -> Iterator[Record]:
    """Compare the architectures of the command line."""
    known = supported_precisions()  # fails at once where the package is missing
    for batch in options.batch or BATCHES:
        for beam in options.beam or (1,):
            for preset in options.preset or ("base",):
                yield from whole_sentences(preset, batch, beam, known, options)


def build_peers(shape: Shape, known: Sequence[str], threads: int) -> dict[str, Peer]:
    """Build a peer in every precision."""
    with tempfile.TemporaryDirectory() as folder:
        write_model(shape, Path(folder))
        return {name: Peer(Path(folder), name, threads) for name in known}


def whole_sentences(
    preset: str, batch: int, beam: int, known: Sequence[str], options: Any
) -> Iterator[Record]:
    """Compare text bytes per second: equal precisions with each other, the best with the best."""
    shape = WHOLE[preset]
    text = random_sources(shape, batch, SUBWORDS + 1)
    actions: dict[str, Callable[[], float]] = {}
    for name, peer in build_peers(shape, known, options.threads).items():
        peer.seconds(text, 2)
        actions[name] = partial(peer.seconds, text, SUBWORDS, beam)
    sizes = (batch, beam, options.threads)
    kinds = product(options.arch, PEER_TYPES)
    cases = [Case(arch, preset, "numba", name, *sizes) for arch, name in kinds]
    for case in cases:
        translate = partial(time_sentences, make_engine(case, torch.device("cpu")), batch)
        translate()  # allocates
        actions[case.name("")] = translate
    found = measure_in_turn(actions, ROUNDS_RATIO * options.rounds)
    rates = {name: batch * SOURCE_BYTES / outcome.best for name, outcome in found.items()}
    best = max(known, key=rates.__getitem__)
    for case in cases:
        own = rates[case.name("")]
        same = case.precision if case.precision in known else best
        fastest = own == max(rates[other.name("")] for other in cases if other.arch == case.arch)
        for other in dict.fromkeys((same, best) if fastest else (same,)):
            note = ", best of both" if fastest and other == best else ""
            layers = f"{shape.encoder_layers} + {shape.decoder_layers} layers of {shape.d}"
            reference = f"CTranslate2 {other}, {layers}, 8,000 subwords"
            what = case.name(f"ctranslate2 {preset} {other}{note}")
            theirs = rates[other]
            yield Record(BENCH, what, own, "text bytes/s", reference, theirs, own / theirs)


def time_sentences(engine: Engine, n: int) -> float:
    """Return the seconds for translating n sentences of SOURCE_BYTES to as many bytes."""
    requests = random_requests(n, SOURCE_BYTES)
    started = time.perf_counter()
    lengths = [len(found[0].text) for _, found in decode(engine, requests)]
    took = time.perf_counter() - started
    if lengths != [SOURCE_BYTES] * n:
        raise RuntimeError("sentences have ended before their limit")
    return took
