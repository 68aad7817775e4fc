"""Simultaneous translation: a session is fed a source as it comes, and commits text before the source ends.

Committed text never changes. The policy follows from the model:

wait-k (Ma et al. 2019, 1810.08398), in bytes, for models with a bounded look-ahead of the encoder: the first
target byte is chosen when `wait` source bytes have come, one more with each further source byte.

local agreement (Liu et al. 2020, 2005.11185; Polák et al. 2022) for all other models: the source so far is
translated anew at checkpoints, at ends of words `wait` bytes or more apart. What two translations in a row
begin with is committed, and forced as a prefix from then on; the rest of the newest one may be revised.

What is committed, and after which source byte, depends on the source alone, not on the pieces in which it was
fed or on the time between them. So a session gives the same bytes as one that is fed the whole line at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple, Protocol

from bytenmt.data.sentences import TERMINATORS_WITHOUT_SPACE, sentence_ends
from bytenmt.decoding.interface import Engine, Options, Request, shared_beginning
from bytenmt.decoding.reranking import Reranker
from bytenmt.decoding.scheduler import STOP_TEST_EVERY, decode
from bytenmt.decoding.setting_table import DEFAULT_WAIT
from bytenmt.decoding.settings import Settings, encode_line
from bytenmt.errors import SettingError
from bytenmt.utf8 import LONGEST_CHARACTER, first_invalid

LONGEST_WORD = 32  # bytes; what is longer, as in scripts without spaces, does not wait for its end
# Bytes by which the limit of an output exceeds what may be chosen before the source has ended, so that the
# limit rules out no character.
ROOM = 2 * LONGEST_CHARACTER


class SessionModel(Protocol):
    """The parts of translator.Translator that a session uses."""

    @property
    def settings(self) -> Settings: ...

    @property
    def options(self) -> Options: ...

    @property
    def has_source(self) -> bool: ...

    @property
    def least_wait(self) -> int: ...

    @property
    def reranker(self) -> Reranker | None: ...

    def engine(self, capacity: int) -> AbstractContextManager[Engine]: ...


class Update(NamedTuple):
    """The changes that a call of a session made.

    committed: text that is added to the committed text, for good. tail: the text after it as it would be if
    the source ended here; it replaces the tail of the update before. is_new_segment: whether the committed
    text begins a new segment, because source had been deleted that the segment before depends on.
    """

    committed: str
    tail: str
    is_new_segment: bool = False


class SourceSegment(ABC):
    """A sentence that is read in pieces, and what is committed of its translation.

    source, committed, tail: bytes; committed and tail are whole characters. reads: for each committed byte
    the source bytes that had come when it was chosen. consumed: source bytes that the committed text depends
    on.
    """

    def __init__(self, translator: SessionModel, wait: int) -> None:
        self._translator, self._wait = translator, wait
        self.source, self.committed, self.tail = b"", b"", b""
        self.reads: list[int] = []
        self.consumed = 0

    def truncate(self, n_bytes: int) -> None:
        """Shorten the source to n_bytes, of which the committed text depends on no more."""
        self.source = self.source[:n_bytes]

    @abstractmethod
    def update(self) -> None:
        """Commit what the source that has come decides."""

    def finish(self) -> None:
        """Translate to the end: no source follows."""
        if self.source:
            n_before, n_bytes = len(self.committed), len(self.source)
            limit = max(self._translator.settings.max_target_bytes(n_bytes), n_before)
            text = self._whole_translation(limit)
            self.commit(text, [self._read_at(i) for i in range(n_before, len(text))])
        self.tail = b""

    def close(self) -> None:  # noqa: B027  not every policy holds anything
        """Free the engine that the segment holds."""

    def commit(self, text: bytes, reads: list[int]) -> None:
        """Extend the committed text to `text`. reads: of the bytes that are new."""
        self.committed, self.reads = text, self.reads + reads
        if reads:
            self.consumed = max(reads)

    @abstractmethod
    def _whole_translation(self, limit: int) -> bytes:
        """Return the translation of the source, which begins with the committed text. limit: in bytes."""

    def _read_at(self, position: int) -> int:
        """The source bytes that have come when the byte at a position is chosen, if none follow."""
        return len(self.source)


class WaitKSegment(SourceSegment):
    """A segment of the wait-k policy.

    It holds an engine from its first byte on, which reads each source byte and chooses each target byte once.
    """

    def __init__(self, translator: SessionModel, wait: int) -> None:
        super().__init__(translator, wait)
        self._engine: Engine | None = None
        self._lease = ExitStack()  # gives the engine back when it is closed
        self._handle, self._n_read, self._n_chosen = 0, 0, 0

    def truncate(self, n_bytes: int) -> None:
        """See SourceSegment; the encoder has read what is deleted, so the source is read anew."""
        super().truncate(n_bytes)
        self.close()

    def update(self) -> None:
        if not self.source:
            return
        engine, n_decided = self._extended(len(self.source) + ROOM, False), len(self.source) - self._wait + 1
        while self._n_chosen < n_decided:
            engine.advance(n_decided - self._n_chosen)
            text, n_before = engine.so_far(self._handle), len(self.committed)
            self._n_chosen = len(text)
            added = whole_characters(text[n_before:])
            self.commit(self.committed + added, [self._read_at(n_before + i) for i in range(len(added))])
        self._engine = engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.drop(self._handle)
            self._engine = None
            self._lease.close()

    def _whole_translation(self, limit: int) -> bytes:
        engine = self._extended(max(limit, len(self.source) + ROOM), True)
        while not (done := engine.finished()):
            engine.advance(STOP_TEST_EVERY)
        self._lease.close()
        return done[0][1][0].text

    def _extended(self, limit: int, is_last: bool) -> Engine:
        """Return the engine when it has read the source. It is no longer held: after an error it is not used
        again."""
        engine, self._engine = self._engine, None
        if engine is None:
            self._lease, self._n_read, self._n_chosen = ExitStack(), 0, 0
            engine = self._lease.enter_context(self._translator.engine(1))
            engine.room()  # an engine that waits for compiled kernels takes them up here
            (self._handle,) = engine.admit(
                [Request(b"", ROOM, self.committed, wait=self._wait, is_open=True)]
            )
        engine.extend(self._handle, self.source[self._n_read :], limit, is_last)
        self._n_read = len(self.source)
        return engine

    def _read_at(self, position: int) -> int:
        return min(self._wait + position, len(self.source))


class AgreementSegment(SourceSegment):
    """A segment of the local agreement policy.

    Of each checkpoint it keeps the source bytes that decided its place, and the translation. skips: of the
    checkpoints that one call of `feed` reaches only the last one counts. A call then costs one translation,
    however long its text is, and what is committed depends on the pieces in which a source was fed.
    """

    def __init__(self, translator: SessionModel, wait: int, skips: bool = False) -> None:
        super().__init__(translator, wait)
        self._skips = skips
        self._checkpoints: list[tuple[int, int, bytes]] = []  # bytes read, bytes translated, translation

    def truncate(self, n_bytes: int) -> None:
        super().truncate(n_bytes)
        while self._checkpoints and self._checkpoints[-1][0] > n_bytes:
            self._checkpoints.pop()
        self._show_tail()

    def update(self) -> None:
        end = self._last_end
        while (found := next_checkpoint(self.source, end, self._wait)) is not None:
            read, end = found
            if self._skips and next_checkpoint(self.source, end, self._wait) is not None:
                continue
            limit = max(self._translator.settings.max_target_bytes(end), len(self.committed))
            text = self._decode(Request(self.source[:end], limit, self.committed))
            before = [translation for _, _, translation in self._checkpoints[-1:]]
            self._checkpoints.append((read, end, text))
            agreed = whole_characters(shared_beginning([text, *before])) if before else b""
            if len(agreed) > len(self.committed):
                self.commit(agreed, [read] * (len(agreed) - len(self.committed)))
        self._show_tail()

    @property
    def _last_end(self) -> int:
        return self._checkpoints[-1][1] if self._checkpoints else 0

    def _whole_translation(self, limit: int) -> bytes:
        return self._decode(Request(self.source, limit, self.committed))

    def _decode(self, request: Request) -> bytes:
        """Return the best translation."""
        with self._translator.engine(1) as engine:
            ((_, hypotheses),) = decode(engine, [request])
        return hypotheses[0].text

    def _show_tail(self) -> None:
        """Let the tail be what the newest translation has after the committed text."""
        text = self._checkpoints[-1][2] if self._checkpoints else self.committed
        self.tail = text[len(self.committed) :]


class Session:
    """A simultaneous translation: feed it a source in pieces, then finish the segment.

    >>> translator = Translator.load("runs/mine")  # doctest: +SKIP
    >>> session = translator.open(wait=16)  # doctest: +SKIP
    >>> text = session.feed("오후 3시").committed + session.feed(" 40분").committed  # doctest: +SKIP
    >>> text += session.finish().committed  # doctest: +SKIP

    After `finish`, what is fed begins the next segment. segment: the current one, or the last one if nothing
    was fed after it. Between calls a session of a model with bounded look-ahead holds an engine of its own,
    with a few megabytes beside the shared weights; `finish`, `close` and the end of a `with` block give it
    back.
    """

    def __init__(self, translator: SessionModel, wait: int = DEFAULT_WAIT) -> None:
        """See Translator.open."""
        search, settings = translator.options, translator.settings
        least = translator.least_wait
        if not 1 <= wait <= 1 << 20 or wait < least:
            raise SettingError(f"wait is {wait}: this model needs {max(1, least)} to {1 << 20:,} bytes")
        refused = {
            "sample": search.sample,
            "n_best": search.n_best > 1,
            "prefix": bool(settings.prefix),
            "keep or glossary": settings.rules is not None,
            "reverse": translator.reranker is not None,
            "beam (with a bounded look-ahead)": search.beam > 1 and least > 0,
        }
        for name in (name for name, is_given in refused.items() if is_given):
            raise SettingError(f"simultaneous translation cannot use {name}: leave it out")
        if not translator.has_source:
            raise SettingError("simultaneous translation needs a translation model, not a language model")
        self._translator, self._wait = translator, wait
        self.segment = self._begin()
        self._is_finished = False

    def feed(self, text: str) -> Update:
        """Append to the source; return what is new. Raises DataError for a line break."""
        added = encode_line(text, "the text")
        is_new = self._is_finished
        if is_new:
            self.segment, self._is_finished = self._begin(), False
        return self._changed(self.segment.source + added, is_new)

    def delete(self, n_characters: int) -> Update:
        """Delete the last characters of the source.

        If the committed text depends on one of them, it stays as it is and a new segment begins, whose source
        is empty. Raises ValueError if the segment has fewer characters.
        """
        text = "" if self._is_finished else self.segment.source.decode()
        if not 0 <= n_characters <= len(text):
            raise ValueError(f"{n_characters} characters cannot be deleted from {text!r}")
        if not n_characters:
            return Update("", whole_characters(self.segment.tail).decode())
        left = text[: len(text) - n_characters].encode()
        if len(left) < self.segment.consumed:
            self.segment.close()
            self.segment = self._begin()
            return Update("", "", is_new_segment=True)
        self.segment.truncate(len(left))
        return self._changed(left, False)

    def preview(self) -> Update:
        """Translate the source so far to its end, as a tail: nothing is committed, and more may be fed."""
        source, prefix = self.segment.source, self.segment.committed
        if self._is_finished or not source:
            return Update("", "")
        limit = max(self._translator.settings.max_target_bytes(len(source)), len(prefix))
        request = Request(source, limit, prefix)
        if self._translator.least_wait:
            request = request._replace(limit=max(limit, len(source) + ROOM), wait=self._wait)
        with self._translator.engine(1) as engine:
            ((_, hypotheses),) = decode(engine, [request])
        return Update("", hypotheses[0].text[len(prefix) :].decode())

    def finish(self) -> Update:
        """End the segment: commit the rest of its translation."""
        if self._is_finished:
            return Update("", "")
        before = len(self.segment.committed)
        self.segment.finish()
        self._is_finished = True
        return Update(self.segment.committed[before:].decode(), "")

    def close(self) -> None:
        """Abandon the segment without its rest; what is fed after that begins the next one."""
        self.segment.close()
        self._is_finished = True

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _changed(self, source: bytes, is_new: bool) -> Update:
        segment, before = self.segment, len(self.segment.committed)
        segment.source = source
        segment.update()
        return Update(segment.committed[before:].decode(), whole_characters(segment.tail).decode(), is_new)

    def _begin(self) -> SourceSegment:
        kind = WaitKSegment if self._translator.least_wait else AgreementSegment
        return kind(self._translator, self._wait)


class LineSession:
    """The simultaneous translation of lines of several sentences, each line fed in pieces.

    Sentences that have ended are translated to their end, as in Translator.translate; only the last one goes
    on. No sentence is longer than max_source_bytes: a longer one ends at one of the last spaces before that,
    or else between two characters. White space between two sentences is copied. n_cuts: sentences of the
    line that were cut.
    """

    def __init__(self, session: Session, languages: Sequence[str], max_source_bytes: int) -> None:
        """Begin a line. session: see Translator.open. languages: as Translator has them; none: no split."""
        self._session = session
        self._languages, self._limit = languages, max_source_bytes
        self._begin_line()

    def feed(self, text: str) -> str:
        """Append to the line; return the text that is committed. The pieces make no difference."""
        committed = "".join(map(self._add, text))
        return committed + self._translate()

    def finish(self) -> str:
        """End the line; return the rest of its translation."""
        committed = self._end_sentence(self._blanks)
        self._begin_line()
        return committed

    def _begin_line(self) -> None:
        self.n_cuts = 0
        self._sentence, self._n_bytes = "", 0
        self._unread = ""  # the end of the sentence that the session has not got
        self._blanks = ""  # after a sign that may end the sentence, until the next character decides

    def _add(self, character: str) -> str:
        """Append a character to the line; return the text that is committed if a sentence ends."""
        last = self._sentence[-1:]
        if character.isspace() and self._n_bytes >= self._limit - min(LONGEST_WORD, self._limit // 4):
            self.n_cuts += 1
            return self._end_sentence(self._blanks + character)
        if character.isspace() and self._languages and last and not last.isalnum():
            self._blanks += character
            return ""
        if self._blanks or (self._languages and last and last in TERMINATORS_WITHOUT_SPACE):
            ends = sentence_ends(self._sentence + self._blanks + character, self._languages)
            if ends and ends[-1] == len(self._sentence):
                return self._end_sentence(self._blanks) + self._append(character)
        blanks, self._blanks = self._blanks, ""
        return "".join(map(self._append, blanks + character))

    def _append(self, character: str) -> str:
        """Append a character to the sentence, which ends before it if it is too long."""
        committed, n_bytes = "", len(character.encode())
        if self._n_bytes + n_bytes > self._limit:
            self.n_cuts += 1
            committed = self._end_sentence("")
        self._sentence, self._unread = self._sentence + character, self._unread + character
        self._n_bytes += n_bytes
        return committed

    def _translate(self) -> str:
        unread, self._unread = self._unread, ""
        return self._session.feed(unread).committed if unread else ""

    def _end_sentence(self, separator: str) -> str:
        """Translate the sentence to its end; return what is committed, and the separator after it."""
        committed = self._translate() + self._session.finish().committed
        self._sentence, self._n_bytes, self._blanks = "", 0, ""
        return committed + separator


def whole_characters(text: bytes) -> bytes:
    """Return a beginning of valid UTF-8 without its last character if that is incomplete."""
    n_whole = first_invalid(text)
    return text if n_whole < 0 else text[:n_whole]


def next_checkpoint(source: bytes, last: int, wait: int) -> tuple[int, int] | None:
    """Return the checkpoint of local agreement after the one at `last`, None if it has not come.

    It is at the first end of a word, before a space, at least `wait` bytes on; after twice as many bytes
    without one, between two characters. Returns the bytes by which it was known, and the bytes before it.
    """
    end = source.find(b" ", last + wait, last + 2 * wait + 1)
    if end >= 0:
        return end + 1, end
    read = last + 2 * wait + LONGEST_CHARACTER
    if len(source) < read:
        return None
    end = last + 2 * wait
    while source[end] & 0xC0 == 0x80:  # a continuation byte: its character began before or ends after
        end += 1
    return read, end
