"""What a translation looks like from inside, asked of a process beside the server, which starts it when it is
asked for the first time and again where it has ended. Knows no PyTorch.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import Refusal

MOST_BYTES = 2_000  # of a line: an alignment has a weight for every byte of it and every one of the other
LONGEST_ANSWER = 1 << 22  # bytes


class Explainer:
    """runs: of each direction."""

    def __init__(self, runs: Mapping[Direction, Sequence[Path]]) -> None:
        self._numbers = {direction: number for number, direction in enumerate(runs)}
        self._runs = json.dumps([[str(run) for run in each] for each in runs.values()])
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def __call__(self, direction: Direction, source: str, text: str) -> dict[str, Any]:
        """What is known of a line and its translation, see explaining.Direction.told. Raises Refusal (400)
        for lines that are too long, RuntimeError where the process fails."""
        if max(len(source.encode()), len(text.encode())) > MOST_BYTES:
            raise Refusal(400, f"lines of at most {MOST_BYTES:,} bytes are explained")
        asked = json.dumps([source, text, self._numbers[direction]]).encode() + b"\n"
        # Who leaves while it is answered must not leave the answer to the next one.
        return await asyncio.shield(self._ask(asked))

    async def _ask(self, asked: bytes) -> dict[str, Any]:
        async with self._turn:
            if self._process is None or self._process.returncode is not None:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "bytenmt.serve.explaining", self._runs),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=LONGEST_ANSWER,
                )
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.write(asked)
            line = await self._process.stdout.readline()
            if not line:
                await self._process.wait()
                raise RuntimeError("the process that explains has ended")
            found: dict[str, Any] = json.loads(line)
            return found
