"""Limits of a server: how much it takes on in all and of one client, its deadlines, and API keys."""

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
    """A request that is not answered. status: of HTTP, 4xx or 503; message: one line for the client;
    retry_after: seconds until it may be worth while to ask again."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


class Client(NamedTuple):
    """Who a request is counted for. address: of the network, see `client_address`; key: names an API key
    without telling it, None where no key is required."""

    address: str
    key: str | None = None

    def accounts(self) -> tuple[str, ...]:
        """The names under which its requests are counted; each has the same limit."""
        return (f"address {self.address}", *((f"key {self.key}",) if self.key is not None else ()))


UNKNOWN_CLIENT = Client("unknown")


def client_address(host: str) -> str:
    """Return what counts as one client: an IPv4 address, or the /64 network of an IPv6 address, of which one
    customer has all; text that is no address as it is."""
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
    """How much a server takes on.

    body: bytes of a request.
    characters: of the texts of one request; each text counts as one more.
    queue: requests that wait or are decoded, of all clients.
    queue_per_client: the same of one client address, and of one API key. A client has the same share of the
        characters that may wait.
    alternatives: of a text.
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

    def replace(self, others: Keys) -> None:
        """Take the keys of another object instead; whoever holds this one, as an open websocket does, checks
        by them from now on."""
        self._digests = others._digests

    @property
    def required(self) -> bool:
        """Whether a request needs one."""
        return bool(self._digests)

    def check(self, given: str | None) -> str | None:
        """Return a name of the key for counting, None where no key is required. Raises Refusal (403) for a
        key that is missing or unknown. It takes the same time for every key: all digests, of one length, are
        compared in full."""
        if not self._digests:
            return None
        if not given:
            raise Refusal(403, "an API key is required: send it as api_key")
        digest = _digest(given)
        found = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(found):
            raise Refusal(403, "Invalid API key")
        return digest.hex()[:16]


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
