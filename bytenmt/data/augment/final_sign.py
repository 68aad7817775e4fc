"""Leave out the sign at the end of a sentence, to train models on headings, buttons and hasty writing."""

from __future__ import annotations

import random
import re

_FINAL = re.compile(r"[.!?…。！？｡]+\Z")


def without_final_sign(source: bytes, target: bytes, draws: random.Random) -> tuple[bytes, bytes]:
    """Return a pair of texts without the signs at their ends, if both have some, and more than these.

    source, target: valid UTF-8. draws: not used; this is an augmentation, see plugins.Augmentation.
    """
    shorter = _FINAL.sub("", source.decode()), _FINAL.sub("", target.decode())
    own, other = (text.encode() for text in shorter)
    return (own, other) if own and other and own != source and other != target else (source, target)
