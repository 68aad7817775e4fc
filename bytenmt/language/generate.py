"""Text drawn from a language model, as it comes: a stream of whole characters.

Knows engines by their protocol and runs through the runtime; no models.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bytenmt.config import bounds
from bytenmt.decoding.interface import Options, Request
from bytenmt.decoding.loading import Runtime
from bytenmt.decoding.translator import in_characters
from bytenmt.utf8 import first_invalid


def generate(runtime: Runtime, prompt: bytes = b"", n_bytes: int = 1000, **options: Any) -> Iterator[bytes]:
    """The prompt and up to n_bytes more, drawn byte by byte: always valid UTF-8, line ends included.

    runtime: of runs without a source; n_bytes: see bounds.N_BYTES. options: of interface.Options
    (temperature, top_k, top_p, seed). It is less than n_bytes only where the next character had no room.
    """
    if runtime.source:
        raise ValueError("the runs were trained with a source: expected language models")
    bounds.check({"n_bytes": n_bytes}, {"n_bytes": bounds.N_BYTES})
    if first_invalid(prompt) >= 0:
        raise ValueError(f"the prompt {prompt!r} is not valid UTF-8")
    engine = runtime.maker(Options(sample=True, endless=True, **options))(1)
    yield from in_characters(engine, Request(None, len(prompt) + n_bytes, prompt))
