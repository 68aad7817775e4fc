"""Print a line for the user when mapped bytes are gone: their file has become shorter, or its disk fails.

The operating system then sends SIGBUS to the thread that reads them. A handler of Python's module `signal`
would run only after the read, which never ends; one that is called from C, as here, runs at once.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from functools import cache

FAILED = 1  # exit code, as of any other error
LINE = (
    b"bytenmt: a file was cut short, or its disk failed, while it was read: give it whole and start again;"
    b" the last checkpoint of a training stands, and --resume goes on\n"
)


def _end_process(_: int) -> None:
    os.write(2, LINE)
    os._exit(FAILED)


_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)(_end_process)


@cache
def tell_of_lost_bytes() -> None:
    """Make SIGBUS end this process with LINE on stderr; if Python's faulthandler is on, that one
    reports it.
    """
    if not faulthandler.is_enabled():
        ctypes.CDLL(None).signal(signal.SIGBUS, _HANDLER)
