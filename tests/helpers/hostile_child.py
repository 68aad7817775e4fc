"""A child of a document pool that does what the name of a document says; imports nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from bytenmt.serve import documents

real_child, real_task = documents._child, documents.run_task


def hostile_task(sources: Any, translations: Any = None) -> Any:
    what, _, path = sources[0].name.partition(":")
    while what == "spin":
        pass
    if what == "memory":
        bytearray(10**9)
    if what == "crash":
        os._exit(9)
    if what == "fault":
        raise ValueError("a fault")
    while what == "until" and not Path(path).exists():
        time.sleep(0.01)
    return real_task([documents.DocumentSource("a.txt", one.data) for one in sources], translations)


def hostile_child(pipe: Any, *task: Any) -> None:
    documents.CPU_SECONDS, documents.MEMORY_BYTES = 1, 200_000_000
    documents.run_task = hostile_task  # type: ignore[assignment]
    real_child(pipe, *task)
