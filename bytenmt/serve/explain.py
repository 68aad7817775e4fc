"""What a translation looks like from inside: of which source character each character is, and how surprising
it was. One thread asks the models for it. Knows runtimes and lines.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from bytenmt.decoding.loading import Runtime
from bytenmt.decoding.reading import Reader
from bytenmt.evaluation.alignment import Aligner
from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import Refusal

MOST_BYTES = 2_000  # of a line: an alignment has a weight for every byte of it and every one of the other


class Explainer:
    """runtimes: of each direction; what reads is made when it is asked for first."""

    def __init__(self, runtimes: Mapping[Direction, Runtime]) -> None:
        self._runtimes = runtimes
        self._made: dict[Direction, tuple[Reader, Aligner | None]] = {}
        self._thread = ThreadPoolExecutor(1)

    async def __call__(self, direction: Direction, source: str, text: str) -> dict[str, Any]:
        """What is known of a line and its translation, see told. Raises Refusal (400) for lines that are too
        long."""
        if max(len(source.encode()), len(text.encode())) > MOST_BYTES:
            raise Refusal(400, f"lines of at most {MOST_BYTES:,} bytes are explained")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(self.told, direction, source, text))

    def told(self, direction: Direction, source: str, text: str) -> dict[str, Any]:
        """bits: of each character; alignment: of each, the source characters that it is most of, begin and
        end; None without attention."""
        line, found = source.encode(), text.encode()
        if not found:
            return {"bits": [], "alignment": None}
        reader, aligner = self._of(direction)
        (reading,) = reader.texts([line], [found])
        links = aligner.links([[(line, found, b"")]])[0] if aligner else []
        bits, at = [], 0
        for character in text:
            end = at + len(character.encode())
            bits.append(round(-float(reading.log_p[at:end].sum()) / math.log(2), 4))
            at = end
        return {"bits": bits, "alignment": [link.source_chars for link in links] or None}

    def _of(self, direction: Direction) -> tuple[Reader, Aligner | None]:
        if direction not in self._made:
            runtime = self._runtimes[direction]
            attentive = runtime.attention()
            self._made[direction] = runtime.reader(), Aligner(attentive) if attentive else None
        return self._made[direction]
