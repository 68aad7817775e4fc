"""The work that a server has admitted: its limits, for each client too, and the time to wait."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

BYTES_PER_CHARACTER = 100  # of a request: documents have far more bytes than text
MAX_LONGEST_REQUESTS = 50  # so many of the longest texts may wait altogether
N_CLIENT_SHARES = 4  # a client may have a quarter of the queue
WAITING_SHARE = 0.5  # of Limits.seconds for the work that waits: more comes before it is done
# Characters a second of a small int8 model on one core, until the speed is measured.
ASSUMED_SPEED = 5000.0
REMEMBERED_SECONDS = 60.0  # of work, in which the measured speed is forgotten to a third


class Refusal(Exception):
    """Raised to answer a request with an error: HTTP status and message.

    message: one line for the client. retry_after: seconds until it may try again, None if not said.
    closes: whether to close the connection, because the body of the request is not read.
    """

    def __init__(
        self, status: int, message: str, retry_after: int | None = None, closes: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.closes = closes


class Limits(NamedTuple):
    """The limits of a server, from its options; requests beyond them are refused or cancelled."""

    characters: int = 20_000  # of the texts of one request; an empty text counts as one
    queue: int = 256  # requests that wait or are decoded, of all clients
    seconds: float = 120.0  # from a request's headers to the last byte of its answer

    @property
    def body_bytes(self) -> int:
        """The maximum size of the body of a request in bytes: 100 times `characters`."""
        return BYTES_PER_CHARACTER * self.characters

    def count_characters(self, texts: Sequence[str]) -> int:
        """Return the work that texts mean for the queue: their characters, and one for each text.

        Raises Refusal (HTTP 413) for more than `characters`.
        """
        n_characters = sum(len(text) or 1 for text in texts)
        if n_characters > self.characters:
            raise Refusal(
                413, f"the texts have {n_characters:,} characters: at most {self.characters:,}"
            )
        return n_characters + len(texts)


class WorkQueue:
    """Counts the requests that wait or are decoded, and refuses further ones if they are too many.

    It does not hold the requests. n_requests, n_characters: totals of all clients at the moment.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._max_characters = MAX_LONGEST_REQUESTS * limits.characters
        self.n_requests = 0
        self.n_characters = 0
        self._requests_of: Counter[str] = Counter()
        self._characters_of: Counter[str] = Counter()
        # The characters translated of late, and the seconds that they took.
        self._done = ASSUMED_SPEED
        self._seconds = 1.0
        self._last = 0.0  # when a request was answered, or began in an empty queue

    @property
    def is_full(self) -> bool:
        """Return whether every further request is refused, no matter which client sends it."""
        return self.n_requests >= self._limits.queue or self.n_characters >= self._max_characters

    def retry_after(self) -> int:
        """Estimate the seconds until the admitted work is done, by the recent speed; 1 or more."""
        return max(1, math.ceil(self.n_characters * self._seconds / self._done))

    @contextmanager
    def admitted(self, client: str, n_characters: int) -> Iterator[None]:
        """Admit a request and count it as work of its client while the context is open.

        client: name of the client. n_characters: as Limits.count_characters returns. Raises
        Refusal (HTTP 429) if the queue, or the quarter of it that one client may have, is full, or
        if others wait and all would probably take more than half of Limits.seconds.
        """
        max_requests = max(1, self._limits.queue // N_CLIENT_SHARES)
        max_characters = self._max_characters // N_CLIENT_SHARES
        has_share = (
            self._requests_of[client] < max_requests
            and self._characters_of[client] + n_characters <= max_characters
        )
        seconds = (self.n_characters + n_characters) * self._seconds / self._done
        is_late = self.n_requests and seconds > WAITING_SHARE * self._limits.seconds
        if self.is_full or is_late or not has_share:
            wait = self.retry_after()
            whose = "" if has_share else " of this client"
            raise Refusal(429, f"too many requests{whose} are waiting: try again in {wait} s", wait)
        if not self.n_requests:
            self._last = time.monotonic()
        self._count(client, 1, n_characters)
        try:
            yield
            self._measure(n_characters)  # a request that failed tells nothing of the speed
        finally:
            self._count(client, -1, -n_characters)

    def _measure(self, n_characters: int) -> None:
        """Update the measured speed after a request with so many characters was answered."""
        elapsed = time.monotonic() - self._last
        kept = math.exp(-elapsed / REMEMBERED_SECONDS)
        self._done = kept * self._done + n_characters
        self._seconds = kept * self._seconds + elapsed
        self._last += elapsed

    def _count(self, client: str, n_requests: int, n_characters: int) -> None:
        self.n_requests += n_requests
        self.n_characters += n_characters
        self._requests_of[client] += n_requests
        self._characters_of[client] += n_characters
        if not self._requests_of[client]:  # nothing is kept of who has gone
            del self._requests_of[client], self._characters_of[client]
