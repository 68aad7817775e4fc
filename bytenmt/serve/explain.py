"""Explain a translation: the bits of every character, and the source characters that it is aligned with."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from bytenmt.decoding.alignment import Aligner
from bytenmt.decoding.loading import Runtime
from bytenmt.decoding.reading import Reader
from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import Refusal

MAX_BYTES = 2_000  # of a line: an alignment has a weight for every pair of bytes


class Explainer:
    """Explains translations in a thread of its own. runtimes: of each direction."""

    def __init__(self, runtimes: Mapping[Direction, Runtime]) -> None:
        self._runtimes = runtimes
        self._made: dict[Direction, tuple[Reader, Aligner | None]] = {}
        self._thread = ThreadPoolExecutor(1)

    async def __call__(self, direction: Direction, source: str, text: str) -> dict[str, Any]:
        """Explain a translation, see `explain`. Raises Refusal (400) for lines that are too long."""
        if max(len(source.encode()), len(text.encode())) > MAX_BYTES:
            raise Refusal(400, f"the line is too long: at most {MAX_BYTES:,} bytes")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(self.explain, direction, source, text))

    def explain(self, direction: Direction, source: str, text: str) -> dict[str, Any]:
        """Return {"bits": of each character, "alignment": for each character begin and end of the source
        characters that it is aligned with most, or None without attention}."""
        line, found = source.encode(), text.encode()
        if not found:
            return {"bits": [], "alignment": None}
        reader, aligner = self._reader(direction)
        (reading,) = reader.texts([line], [found])
        links = aligner.links([[(line, found, b"")]])[0] if aligner else []
        bits, at = [], 0
        for character in text:
            end = at + len(character.encode())
            bits.append(round(-float(reading.log_p[at:end].sum()) / math.log(2), 4))
            at = end
        return {"bits": bits, "alignment": [link.source_chars for link in links] or None}

    def _reader(self, direction: Direction) -> tuple[Reader, Aligner | None]:
        if direction not in self._made:
            runtime = self._runtimes[direction]
            attentive = runtime.attention()
            self._made[direction] = runtime.reader(), Aligner(attentive) if attentive else None
        return self._made[direction]
