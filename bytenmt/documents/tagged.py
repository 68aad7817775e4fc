"""Lines with codes as lines of text with tags, for a translator that keeps tags."""

from __future__ import annotations

import re

from bytenmt.documents.unit import Parts, merged
from bytenmt.sentinels import Code


def tags(parts: Parts) -> dict[str, Code]:
    """Return the tags that stand for the codes of a line, in their order: <g1>, </g1> or <x2/>."""
    made, numbers = dict[str, Code](), dict[int, int]()
    for part in parts:
        if isinstance(part, Code):
            key = part.pair if part.pair >= 0 else -1 - len(made)
            number = numbers.setdefault(key, len(numbers) + 1)
            form = "<x{}/>" if part.pair < 0 else "<g{}>" if part.opens else "</g{}>"
            made[form.format(number)] = part
    return made


def to_text(parts: Parts) -> str:
    """Return a line with a tag in place of each code."""
    following = iter(tags(parts))
    return "".join(part if isinstance(part, str) else next(following) for part in parts)


def to_parts(source: Parts, text: str) -> Parts:
    """Return the translation of a line with its codes in place of their tags."""
    codes = tags(source)
    pieces = re.split(f"({'|'.join(map(re.escape, codes))})", text) if codes else [text]
    return merged(codes.get(piece, piece) for piece in pieces)
