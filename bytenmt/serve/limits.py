"""Limits of a server, in all and for one client; deadlines; API keys."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bytenmt.errors import BytenmtError

SHORTEST_WAIT, LONGEST_WAIT = 1, 60  # seconds that a client is told to wait


class Refusal(Exception):
    """A request that is refused.

    status: of HTTP, 4xx or 503. message: one line for the client. retry_after: seconds after which the client
    may try again.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


class Client(NamedTuple):
    """The client for which a request is counted.

    address: see `client_address`. key: a digest that names an API key, None if no key is required.
    """

    address: str
    key: str | None = None

    def accounts(self) -> tuple[str, ...]:
        """The names under which its requests are counted; each has the same limit."""
        return (f"address {self.address}", *((f"key {self.key}",) if self.key is not None else ()))


UNKNOWN_CLIENT = Client("unknown")


def client_address(host: str) -> str:
    """Return the address under which a client is counted: an IPv4 address, or the /64 network of an IPv6
    address, which one customer has for itself. Text that is no address is returned as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:100]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


@dataclass(frozen=True)
class Limits:
    """The limits of a server.

    body: bytes of a request.
    characters: of the texts of one request; each text counts as one more.
    queue: requests that wait or are decoded, of all clients.
    queue_per_client: the same of one client address, and of one API key. A client has the same share of the
        characters that may wait.
    alternatives: translations of a text besides the best one.
    patience: seconds that a client has to send a request, its headers and its body.
    send_seconds: in which a client must take what it was sent, or some of it (see http/server.py).
    compute_seconds: that translating a request may take, waiting for its turn included.
    request_seconds: from a request's headers to the last byte of its answer.
    document_seconds: of CPU time to read a file or web page, and as many to write its translation.
    document_memory: bytes that either may use.
    """

    body: int = 2_000_000
    characters: int = 20_000
    queue: int = 256
    queue_per_client: int = 64
    alternatives: int = 7
    patience: float = 30.0
    send_seconds: float = 30.0
    compute_seconds: float = 300.0
    request_seconds: float = 600.0
    document_seconds: int = 20
    document_memory: int = 1_000_000_000

    def check_texts(self, texts: Sequence[str]) -> int:
        """Return the number of characters plus one for each text. Raises Refusal (413) above the limit."""
        n_characters = sum(map(len, texts)) + len(texts)
        if n_characters > self.characters:
            raise Refusal(413, f"the texts have {n_characters:,} characters: at most {self.characters:,}")
        return n_characters


class ApiKeys:
    """The API keys of a server; without any, none is required."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def from_file(cls, path: Path) -> ApiKeys:
        """Read keys, one a line; empty lines and lines that begin with # are skipped. Raises BytenmtError."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise BytenmtError(f"{path} is not UTF-8: expected one API key per line") from None
        keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not keys:
            raise BytenmtError(f"{path} contains no API key: give one per line, or leave out --api-keys")
        return cls(keys)

    def replace(self, others: ApiKeys) -> None:
        """Take over the keys of another object."""
        self._digests = others._digests

    @property
    def required(self) -> bool:
        """Return whether requests need a key."""
        return bool(self._digests)

    def check(self, key: str | None) -> str | None:
        """Return a name of the key for counting, None where no key is required.

        Raises Refusal (403) for a key that is missing or unknown. It takes the same time for every key: all
        digests, of one length, are compared in full.
        """
        if not self._digests:
            return None
        if not key:
            raise Refusal(403, "an API key is required: send it as api_key")
        digest = _digest(key)
        found = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(found):
            raise Refusal(403, "Invalid API key")
        return digest.hex()[:16]


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
