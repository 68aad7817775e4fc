"""Made-up distributions over bytes, a decoder that follows them, and searches in plain lists."""

import unicodedata
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bytenmt.decoding.interface import SearchOptions
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.utf8 import BOS, EOS

Distribution = Callable[[bytes], np.ndarray]  # a prefix -> 256 log-probabilities
LONGEST = 400  # bytes that a decoder reads at most


def logits_to_log_p(logits: np.ndarray) -> np.ndarray:
    return logits - float(np.log(np.exp(logits - logits.max()).sum()) + logits.max())


def random_distribution(
    seed: int, peak: float = 4.0, end: float = 0.0, grain: float = 0.0
) -> Distribution:
    """A distribution over any bytes, forbidden ones too; the same for the same prefix.

    grain: logits are multiples of it, so that many are equal.
    """

    def log_p(prefix: bytes) -> np.ndarray:
        generator = np.random.default_rng(zlib.crc32(prefix, seed))
        logits = peak * generator.normal(size=256)
        if grain:
            logits = (logits / grain).round() * grain
        logits[EOS] += end
        return logits_to_log_p(logits)

    return log_p


def few_bytes(seed: int, alphabet: bytes, end: float = 0.0, floor: float = -np.inf) -> Distribution:
    """Only these bytes and EOS have any probability, or more than the floor's."""
    full = random_distribution(seed, peak=1.5, end=end)

    def log_p(prefix: bytes) -> np.ndarray:
        logits = np.full(256, floor)
        kept = [*set(alphabet), EOS]
        logits[kept] = full(prefix)[kept]
        return logits_to_log_p(logits)

    return log_p


def float32(log_p: Distribution) -> Distribution:
    """Numbers that the compiled search does not round."""
    return lambda prefix: log_p(prefix).astype(np.float32).astype(np.float64)


class Which(NamedTuple):
    """A memory. which (n,) int64: the distribution of each sentence."""

    which: Tensor


class Read(NamedTuple):
    """A state: what each row has read, without BOS."""

    text: Tensor
    n_bytes: Tensor


class FakeDecoder:
    """A decoder that obeys the models' contract and follows made-up distributions.

    The source is the number of a sentence's distribution, in digits, beside which there may be
    sentinels; without a source, or with a blank one, it is the first.
    """

    def __init__(self, distributions: list[Distribution]) -> None:
        self.distributions = distributions
        self.rows: list[int] = []  # of each step

    def encode(self, src: Tensor, src_len: Tensor) -> Which:
        numbers = []
        for row, length in zip(src.tolist(), src_len.tolist(), strict=True):
            digits = bytes(byte for byte in row[: max(0, length - 1)] if byte in b"0123456789")
            numbers.append(int(digits or 0))
        return Which(torch.tensor(numbers))

    def start(self, memory: Which, beam: int = 1) -> Read:
        rows = len(memory.which) * beam
        text = torch.zeros(rows, LONGEST, dtype=torch.uint8)
        return Read(text, torch.zeros(rows, dtype=torch.int64))

    def __call__(self, tgt: Tensor, memory: Which, state: Read) -> tuple[Tensor, Read]:
        text = state.text.clone()
        n_bytes = state.n_bytes.clone()
        logits = []
        which = memory.which.repeat_interleave(len(tgt) // len(memory.which))
        for i, byte in enumerate(tgt[:, 0].tolist()):
            if byte != BOS and n_bytes[i] < LONGEST:  # a sentence that is done goes on reading
                text[i, n_bytes[i]] = byte
                n_bytes[i] += 1
            logits.append(self.distributions[which[i]](bytes(text[i, : n_bytes[i]].tolist())))
        self.rows.append(len(tgt))
        return torch.from_numpy(np.array(logits))[:, None], Read(text, n_bytes)

    def reorder(self, state: Read, parents: Tensor) -> Read:
        return Read(state.text[parents], state.n_bytes[parents])


def fake_engine(*decoders: FakeDecoder, options: SearchOptions, capacity: int = 1) -> TorchEngine:
    """Return an engine that follows made-up distributions."""
    models: Any = decoders
    return TorchEngine(models, options, capacity, torch.device("cpu"))


@lru_cache(maxsize=100_000)
def missing(begun: bytes) -> int | None:
    """Bytes that would make this valid UTF-8 at the least; None if none can. By trying."""
    for more in range(4):
        for first in b"\x80\x8f\x90\x9f\xa0\xbf":
            try:
                (begun + (bytes([first]) + b"\x80" * 3)[:more]).decode()
            except UnicodeDecodeError:
                continue
            return more
    return None


def is_control(ends: bytes) -> bool:
    """Is the last character of this a control character other than TAB?"""
    try:
        character = ends[-1:].decode() if ends[-1] < 0x80 else ends[-2:].decode()
    except UnicodeDecodeError:
        return False
    return len(character) == 1 and unicodedata.category(character) == "Cc" and character != "\t"


def may_follow(begun: bytes, byte: int, room: int) -> bool:
    """Whether valid UTF-8 without control characters can begin like this.

    begun: of a character.
    """
    if byte == EOS:
        return not begun
    more = missing(begun + bytes([byte]))
    return more is not None and 1 + more <= room and not is_control(begun + bytes([byte]))


def repeats(text: bytes, byte: int, n: int) -> bool:
    """Would this byte complete n characters that stand in the text already?"""
    before = text.decode("utf-8", "ignore")  # without what was begun
    if byte == EOS or missing(text[len(before.encode()) :] + bytes([byte])) != 0:
        return False
    after = (text + bytes([byte])).decode()
    return len(after) >= n and after[-n:] in before


def followers(text: bytes, limit: int, prefix: bytes = b"", n: int = 0) -> list[int]:
    """The bytes that may follow under a limit, a forced prefix and a guard of n characters."""
    if len(text) < len(prefix):
        return [prefix[len(text)]]
    begun = text[len(text.decode("utf-8", "ignore").encode()) :]
    allowed = [byte for byte in range(256) if may_follow(begun, byte, limit - len(text))]
    return [byte for byte in allowed if not (n and repeats(text, byte, n))] or allowed


class Sentinels(NamedTuple):
    """The sentinels that a text must have, each once, and pairs of them in their order."""

    symbols: bytes = b""
    pairs: tuple[tuple[int, int], ...] = ()

    def pending(self, text: bytes) -> bytes:
        return bytes(byte for byte in self.symbols if byte not in text)

    def rankings(
        self, text: bytes, row: np.ndarray, limit: int, prefix: bytes = b"", n: int = 0
    ) -> dict[int, float]:
        """Return what each byte that may follow is ranked by.

        It is the likeliest sentinel by EOS's probability if that is higher. row: the
        log-probabilities of all bytes; n: see followers.
        """
        if len(text) < len(prefix):
            byte = prefix[len(text)]
            return {byte: float(max(row[byte], row[EOS]) if byte in self.symbols else row[byte])}
        pending = self.pending(text)
        plain = bytes(byte for byte in text if byte not in self.symbols)
        open_bytes = followers(plain, limit - len(self.symbols), n=n)
        ranked = {byte: float(row[byte]) for byte in open_bytes}
        if missing(plain) == 0 and pending:
            del ranked[EOS]
            late = {second for first, second in self.pairs if first in pending}
            open_ones = {byte: float(row[byte]) for byte in sorted(pending) if byte not in late}
            best = max(open_ones, key=lambda byte: open_ones[byte])
            ranked |= open_ones | {best: max(open_ones[best], float(row[EOS]))}
        return ranked


NO_SENTINELS = Sentinels()


def naive_greedy(
    log_p: Distribution, limit: int, prefix: bytes = b"", n: int = 0, rule: Sentinels = NO_SENTINELS
) -> tuple[bytes, float]:
    """The most probable allowed byte, again and again."""
    text = b""
    total = 0.0
    while True:
        row = log_p(text)
        ranked = rule.rankings(text, row, limit, prefix, n)
        byte = max(sorted(ranked), key=lambda b: ranked[b])
        total += row[byte]
        if byte == EOS:
            return text, total
        text += bytes([byte])


def naive_beam(
    log_p: Distribution,
    limit: int,
    beam: int,
    n_best: int = 1,
    prefix: bytes = b"",
    n: int = 0,
    length_penalty: float = 1.0,
    rule: Sentinels = NO_SENTINELS,
) -> list[tuple[bytes, float]]:
    """Beam search in plain lists: return texts and their log-probabilities.

    A text may end if its EOS is among the best `beam` candidates; the best `beam` others go on. The
    search is over when the n_best-th is no worse than the best that goes on would be if it lost
    nothing more: up to the limit, or, once `beam` have ended, up to twice its bytes.
    """

    def ranked(total: float, n_bytes: int) -> float:
        return float(total / (n_bytes + 1) ** length_penalty)

    # Each with its text, the value it is ranked by, and its log-probability.
    going = [(b"", 0.0, 0.0)]
    ended = []
    while going:
        candidates = []
        for text, value, total in going:
            row = log_p(text)
            values = rule.rankings(text, row, limit, prefix, n)
            for byte in sorted(values):
                candidates.append((value + values[byte], text, byte, total + row[byte]))
        candidates.sort(key=lambda c: -c[0])
        ended += [
            (text, value, total) for value, text, byte, total in candidates[:beam] if byte == EOS
        ]
        ended = sorted(ended, key=lambda e: -ranked(e[1], len(e[0])))[:beam]
        others = [one for one in candidates if one[2] != EOS][:beam]
        going = [(text + bytes([byte]), value, total) for value, text, byte, total in others]
        if going and len(ended) >= n_best:
            text, value, _ = ended[n_best - 1]
            worst = ranked(value, len(text))
            text, value, _ = going[0]
            soon = min(2 * len(text), limit) if len(ended) == beam else limit
            if min(ranked(value, limit), ranked(value, soon)) <= worst:
                break
    return [(text, total) for text, _, total in ended[:n_best]]


def everything(
    log_p: Distribution,
    alphabet: bytes,
    limit: int,
    prefix: bytes = b"",
    rule: Sentinels = NO_SENTINELS,
) -> dict[bytes, tuple[float, float]]:
    """Map each text of a few bytes that may be written to its ranking and its log-probability."""
    found = {}
    going = [(b"", 0.0, 0.0)]
    while going:
        text, value, total = going.pop()
        row = log_p(text)
        for byte, ranking in rule.rankings(text, row, limit, prefix).items():
            extended = value + ranking, total + float(row[byte])
            if byte == EOS:
                found[text] = extended
            elif byte in alphabet:
                going.append((text + bytes([byte]), *extended))
    return found


def is_past_end(log_p: Distribution, rule: Sentinels, text: bytes, n_prefix: int = 0) -> bool:
    """Would the model have ended the text before one of its bytes, while sentinels were pending?"""
    rows = [(log_p(text[:k]), text[k], rule.pending(text[:k])) for k in range(n_prefix, len(text))]
    return any(bool(pending) and row[EOS] > row[byte] for row, byte, pending in rows)
