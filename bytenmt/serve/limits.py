"""How much a server takes on, who may ask, and what is told to whom it refuses.

Knows numbers and keys; knows no HTTP beyond its status codes.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bytenmt.errors import BytenmtError

SHORTEST_WAIT, LONGEST_WAIT = 1, 60  # seconds that a client is told to wait


class Refusal(Exception):
    """A request that is not answered. status: of HTTP, 4xx; message: one line for the client; retry_after:
    seconds until it may be worth while to ask again."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


@dataclass(frozen=True)
class Limits:
    """How much a server takes on.

    body: bytes of a request. characters: of all texts of a request; each text counts as one more.
    queue: requests that wait or are decoded. alternatives: of a text. patience: seconds that a client has to
    send a request, its headers and its body. document_seconds: of CPU time to read a file or web page, and as
    many to write its translation. document_memory: bytes that either may use.
    """

    body: int = 2_000_000
    characters: int = 20_000
    queue: int = 256
    alternatives: int = 7
    patience: float = 30.0
    document_seconds: int = 20
    document_memory: int = 1_000_000_000

    def check_texts(self, texts: Sequence[str]) -> int:
        """Their characters. Raises Refusal (413) where there are too many."""
        n_characters = sum(map(len, texts)) + len(texts)
        if n_characters > self.characters:
            raise Refusal(413, f"the texts have {n_characters:,} characters: at most {self.characters:,}")
        return n_characters


class Keys:
    """The keys of those who may ask; without any, everybody may."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Those of a file, one a line; empty lines and such as begin with # are none. Raises BytenmtError."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise BytenmtError(f"{path} is not UTF-8: expected an API key a line") from None
        keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not keys:
            raise BytenmtError(f"{path} holds no API key: give one a line, or leave --api-keys out")
        return cls(keys)

    @property
    def required(self) -> bool:
        """Whether a request needs one."""
        return bool(self._digests)

    def check(self, given: str | None) -> None:
        """Raise Refusal (403) for a key that is missing or unknown. It takes the same time for every key: all
        digests, of one length, are compared in full."""
        if not self._digests:
            return
        if not given:
            raise Refusal(403, "an API key is required: send it as api_key")
        digest = _digest(given)
        found = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(found):
            raise Refusal(403, "Invalid API key")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
