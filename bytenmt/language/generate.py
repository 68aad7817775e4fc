"""Sample text from a language model as a stream of whole characters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bytenmt.config.fields import NBytes, Option, check_values
from bytenmt.decoding.interface import SEARCH_SETTINGS, Request, SearchOptions
from bytenmt.decoding.loading import Runtime
from bytenmt.decoding.scheduler import stream_characters
from bytenmt.errors import SettingError
from bytenmt.utf8 import first_invalid


def generate(
    runtime: Runtime, prompt: bytes = b"", n_bytes: int = 1000, **sampling: Any
) -> Iterator[bytes]:
    """Return an iterator over the prompt and up to n_bytes more of text, sampled from models.

    Each item is valid UTF-8. runtime: loaded language models, from load_runs; n_bytes: at most
    10 MB, and fewer come only if the next character has no room; sampling: temperature, top_k,
    top_p, seed. Raises SettingError for an invalid argument when called, not when iterated.
    """
    if runtime.has_source:
        raise SettingError("the models are translation models: give language models")
    check_values({"n_bytes": n_bytes}, {"n_bytes": Option("n_bytes", NBytes, 1000, "")})
    if first_invalid(prompt) >= 0:
        raise SettingError(f"the prompt {prompt!r} is not valid UTF-8")
    options = SearchOptions(sample=True, endless=True, **check_values(sampling, SEARCH_SETTINGS))
    request = Request(None, len(prompt) + n_bytes, prompt)
    return stream_characters(runtime.make_engine(options, 1), request)
