"""The page that a browser is given, and the rules under which it lets it run: nothing but what is in it.

Knows the file beside this one.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files


def page() -> tuple[str, str]:
    """The page and its Content-Security-Policy. Its script and its style are allowed by their hashes alone,
    and it may ask the server that it came from."""
    text = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    hashes = {kind: _hash(text, kind) for kind in ("script", "style")}
    policy = (
        "default-src 'none'",
        f"script-src {hashes['script']}",
        f"style-src {hashes['style']}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
    return text, "; ".join(policy)


def _hash(text: str, kind: str) -> str:
    """Of the one element of a kind, as the policy has it."""
    (inside,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"
