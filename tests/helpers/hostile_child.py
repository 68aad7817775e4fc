"""A child of a document pool that does what the name of a document says; imports nothing else."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from bytenmt.serve import documents

real_task = documents.run_task


def hostile_read(source: documents.DocumentSource) -> Any:
    what, _, path = source.name.partition(":")
    while what == "spin":
        pass
    if what == "memory":
        bytearray(10**9)
    if what == "xml":  # too large a tree
        return documents.read(documents.DocumentSource("a.xliff", b"<a>" + b"<b/>" * 2_000_000))
    if what == "crash":
        os._exit(9)
    if what == "killed" and not Path(path).exists():  # as by the system, but not a second time
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "fault":
        raise ValueError("a fault")
    while what == "until" and not Path(path).exists():
        time.sleep(0.01)
    return documents.read(documents.DocumentSource("a.txt", source.data))


def hostile_task(function: Any, *arguments: Any) -> Any:
    """Run in a child in place of run_task: with tighter limits, and what a document's name says."""
    documents.CPU_SECONDS = 1
    documents.MEMORY_BYTES = 200_000_000
    return real_task(hostile_read if function is documents.read else function, *arguments)
