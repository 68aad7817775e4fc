"""The page of the server and its Content-Security-Policy."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files


def page() -> tuple[str, str]:
    """Return the page and its Content-Security-Policy.

    Its own script and style are allowed by their hashes, and requests to its own server; nothing else.
    """
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
    """Return the hash of the page's only <script> or <style>, in the syntax of the policy."""
    (inside,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"
