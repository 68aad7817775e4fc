"""Sample text from a language model as a stream of whole characters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bytenmt.config import bounds
from bytenmt.decoding.interface import Options, Request
from bytenmt.decoding.loading import Runtime
from bytenmt.decoding.scheduler import stream_characters
from bytenmt.errors import SettingError
from bytenmt.utf8 import first_invalid


def generate(runtime: Runtime, prompt: bytes = b"", n_bytes: int = 1000, **sampling: Any) -> Iterator[bytes]:
    """Yield the prompt and up to n_bytes more, sampled byte by byte: always valid UTF-8, line ends included.

    runtime: of runs without a source; n_bytes: see bounds.N_BYTES; sampling: temperature, top_k, top_p, seed.
    The text has less than n_bytes only if the next character had no room. Raises SettingError at once.
    """
    if runtime.has_source:
        raise SettingError("the models are translation models: give language models")
    bounds.check({"n_bytes": n_bytes}, {"n_bytes": bounds.N_BYTES})
    if first_invalid(prompt) >= 0:
        raise SettingError(f"the prompt {prompt!r} is not valid UTF-8")
    options = Options(sample=True, endless=True, **sampling)
    engine = runtime.engine_maker(options)(1)
    return stream_characters(engine, Request(None, len(prompt) + n_bytes, prompt))
