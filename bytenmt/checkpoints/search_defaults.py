"""Search defaults that were tuned for a run, in a file of its folder; convert and average copy them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bytenmt.atomic_file import read_limited, replace_synced
from bytenmt.config.facts import SearchDefaults
from bytenmt.config.untrusted import printable
from bytenmt.errors import CheckpointError

FILE = "search.json"
MOST_BYTES = 1 << 16


def read(run: Path) -> SearchDefaults | None:
    """Read the defaults of a run folder, None where it has none. Raises CheckpointError."""
    path = run / FILE
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(read_limited(path, MOST_BYTES), type=SearchDefaults)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is damaged ({printable(str(error))}): delete it, or create it again"
        ) from None


def write(run: Path, defaults: SearchDefaults) -> None:
    """Write the search defaults of a run folder. Raises CheckpointError."""
    try:
        replace_synced(run / FILE, [msgspec.json.encode(defaults), b"\n"])
    except OSError as error:
        raise CheckpointError(f"cannot write {run / FILE}: {error.strerror}") from None
