"""Leave out the sign at the end of a sentence, to train models on headings, buttons and hasty writing."""

from __future__ import annotations

import random
import re

from bytenmt.sentinels import to_bytes, to_text

_FINAL = re.compile(r"[.!?…。！？｡]+\Z")


def without_final_sign(source: bytes, target: bytes, draws: random.Random) -> tuple[bytes, bytes]:
    """Return a pair of texts without the signs at their ends, if both have some, and more than these.

    source, target: valid UTF-8, in which sentinels may stand. draws: not used; this is an augmentation, see
    plugins.Augmentation.
    """
    shorter = _FINAL.sub("", to_text(source)), _FINAL.sub("", to_text(target))
    own, other = map(to_bytes, shorter)
    return (own, other) if own and other and own != source and other != target else (source, target)
