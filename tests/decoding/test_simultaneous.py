"""Simultaneous translation: committed text never changes, and does not depend on how a source was fed."""

from __future__ import annotations

import random
import weakref
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from cpu_engines import packed
from fast_variants import by_variant
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import BOUNDED, build
from rotation import rotated

from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.session import ModelSession
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.pytorch.forward import source_tensors
from bytenmt.decoding.scheduler import decode
from bytenmt.decoding.settings import Settings
from bytenmt.decoding.simultaneous import AgreementSegment, Session, SourceSegment, next_checkpoint
from bytenmt.decoding.translator import Translator
from bytenmt.errors import DataError, SettingError
from bytenmt.utf8 import EOS

LETTERS = ["a", "b", " ", "é", "각", "🙂"]
texts = st.text(st.sampled_from(LETTERS), max_size=9)
# A session: pieces of source, pauses (empty pieces), deletions of some characters, ends of segments.
actions = st.lists(st.one_of(texts, st.integers(0, 6), st.none()), max_size=25)


class HashedEngine:
    """An engine whose output is a hash of what it may know: with a wait each byte of the source bytes that
    have come and the bytes before it, without one of the whole source, so that longer sources revise it."""

    capacity = 1

    def __init__(self) -> None:
        self.request, self.text, self.is_done = Request(b"", 0), b"", True
        self.n_steps = 0

    def room(self) -> int:
        return int(self.is_done)

    def admit(self, requests: list[Request]) -> list[int]:
        assert self.is_done, "the slot was not free"
        (self.request,), self.text, self.is_done, self.n_steps = requests, b"", False, 0
        return [0]

    def extend(self, handle: int, added: bytes, limit: int, is_last: bool) -> None:
        assert self.request.is_open and not self.is_done
        source = (self.request.source or b"") + added
        self.request = self.request._replace(source=source, limit=limit, is_open=not is_last)

    def _character(self) -> bytes:
        source, at = self.request.source or b"", len(self.text)
        wait = self.request.wait
        assert not self.request.is_open or wait + at <= len(source), "a byte that is not decided yet"
        has_ended = not wait or wait + at > len(source)
        # Without a wait one letter in four depends on the newest words of the source: it may be revised.
        known = source[: wait + at] if wait else source[: max(1, at)]
        number = zlib.crc32(known + b"|" + self.text)
        if not wait and number % 4 == 0:
            number = zlib.crc32(source)
        if has_ended and at >= len(source) // 2 and number % 5 == 0:
            return b""
        return (b"x", b" ", "é".encode(), "각".encode())[number // 8 % 4]

    def advance(self, n_steps: int) -> None:
        self.n_steps += n_steps
        while len(self.text) < self.n_steps and not self.is_done:
            at = len(self.text)
            if at < len(self.request.prefix):
                self.text += self.request.prefix[at : at + 1]
                continue
            character = self._character()
            self.is_done = not character or at + len(character) > self.request.limit
            self.text += b"" if self.is_done else character

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        return [(0, [Hypothesis(self.text, 0.0, 0.0)])] if self.is_done and self.n_steps else []

    def drop(self, handle: int) -> None:
        assert not self.is_done
        self.is_done = True

    def so_far(self, handle: int) -> bytes:
        return self.text[: self.n_steps]


def hashed(least_wait: int) -> Translator:
    return Translator(lambda capacity: HashedEngine(), least_wait=least_wait)


def whole(translator: Translator, source: str, wait: int) -> str:
    """Return the text that a session commits which is fed a whole line."""
    session = translator.open(wait)
    return session.feed(source).committed + session.finish().committed


def play(translator: Translator, wait: int, script: list[Any]) -> int:
    """Run a session and check every update; return the number of segments that deletions began."""
    session, seen, source, n_begun = translator.open(wait), "", "", 0
    for action in script:
        if action is None:
            seen += session.finish().committed
            assert seen == whole(translator, source, wait), "another translation than of the whole line"
            source = seen = ""
            continue
        if isinstance(action, int):
            n = min(action, len(source))
            update = session.delete(n)
            if update.is_new_segment:
                assert n and not update.committed and not update.tail
                n_begun += 1
                source = seen = ""
                continue
            source = source[: len(source) - n]
        else:
            update = session.feed(action)
            source += action
        seen += update.committed
        if not source and not seen:
            continue  # the segment before may have ended just now
        assert session.segment.committed.decode() == seen, "committed text changed"
        assert session.segment.consumed <= len(source.encode())
        assert len(session.segment.reads) == len(seen.encode())
    seen += session.finish().committed
    assert not source or seen == whole(translator, source, wait)
    return n_begun


@pytest.mark.slow
@pytest.mark.parametrize("least_wait", [0, 3])
@given(script=actions, wait=st.integers(3, 12))
@settings(max_examples=100)
def test_any_session_commits_for_good_and_what_the_whole_line_gives(
    least_wait: int, script: list[Any], wait: int
) -> None:
    """Pieces of any length, pauses, deletions and ends of segments, by both policies."""
    play(hashed(least_wait), wait, script)


@pytest.mark.slow
@pytest.mark.parametrize("least_wait", [0, 3])
def test_ten_thousand_sessions(least_wait: int) -> None:
    """Longer ones, of which many delete what has been consumed."""
    draw, n_begun = random.Random(7), 0
    translator = hashed(least_wait)
    for _ in range(5000):
        script: list[Any] = []
        for _ in range(draw.randrange(3, 20)):
            kind = draw.random()
            length = draw.randrange(12)
            piece = "".join(draw.choices(LETTERS, k=length))
            script.append(None if kind < 0.1 else draw.randrange(1, 7) if kind < 0.3 else piece)
        n_begun += play(translator, draw.randrange(3, 20), script)
    assert n_begun > 500


def test_wait_k_chooses_each_byte_when_it_may() -> None:
    """Nothing before `wait` bytes have come, then as many bytes as have come since, in whole characters."""
    translator, source = hashed(3), "a각bb 🙂ab a각é abba"
    session, n_read = translator.open(5), 0
    for character in source:
        session.feed(character)
        n_read += len(character.encode())
        n_chosen = max(0, n_read - 5 + 1)
        assert n_chosen - 3 <= len(session.segment.committed) <= n_chosen
        assert session.segment.tail == b""
    session.finish()
    n = len(session.segment.committed)
    assert session.segment.reads == [min(5 + i, len(source.encode())) for i in range(n)]


def test_agreement_commits_what_two_translations_begin_with() -> None:
    """Translations of growing sources, made up, and the beginning that two of them in a row share."""
    answers = {b"aa": b"one", b"aa bb": b"on the", b"aa bb cc": b"on the two", b"aa bb cc d": b"on thee"}
    prefixes = []

    class Engine(HashedEngine):
        def _character(self) -> bytes:
            assert self.request.source is not None
            if not self.text:
                prefixes.append(self.request.prefix)
            return answers[self.request.source][len(self.text) :][:1]

    session = Translator(lambda capacity: Engine()).open(2)
    assert session.feed("aa") == ("", "", False)
    assert session.feed(" ") == ("", "one", False)
    assert session.feed("bb ") == ("on", " the", False)
    assert session.delete(1) == ("", "", True) and session.segment.source == b""
    session = Translator(lambda capacity: Engine()).open(2)
    assert session.feed("aa bb cc ") == ("on the", " two", False)
    assert session.feed("d") == ("", " two", False)
    assert session.finish() == ("e", "", False)
    assert session.segment.reads == [6, 6, 9, 9, 9, 9, 10]


@pytest.mark.parametrize(
    ("source", "last", "expected"),
    [
        (b"abcd", 0, None),
        (b"abcd ", 0, (5, 4)),
        (b"ab cd e", 0, (6, 5)),  # the space after two bytes is too early
        (b"ab cd efg ", 5, (10, 9)),
        (b"ab cd ef ", 5, None),
        (b"abcdefghijklm", 0, (12, 8)),  # no space within twice the wait
        (b"abcdefghijk", 0, None),
        ("abcdefg각ij".encode(), 0, (12, 10)),  # between two characters
    ],
)
def test_checkpoints(source: bytes, last: int, expected: tuple[int, int] | None) -> None:
    assert next_checkpoint(source, last, 4) == expected


def test_a_tail_is_revised_when_the_source_is_deleted() -> None:
    """Source that no committed byte depends on can be deleted; the tail is then that of what is left."""
    session = hashed(0).open(4)
    first = session.feed("abab ")
    assert first.tail and not first.committed
    assert session.delete(1).tail == ""
    assert session.feed(" ") == first


@pytest.mark.parametrize("least_wait", [0, 3])
def test_a_preview_is_the_rest_and_commits_nothing(least_wait: int) -> None:
    """After each piece it is what `finish` commits in another session that was fed as much."""
    translator, draw = hashed(least_wait), random.Random(7)
    for _ in range(20):
        session, source = translator.open(4), ""
        assert session.preview() == ("", "", False)
        for character in draw.choices(LETTERS, k=25):
            session.feed(character)
            source += character
            committed, tail = session.segment.committed, session.preview().tail
            assert session.segment.committed == committed
            assert committed.decode() + tail == whole(translator, source, 4)
        session.finish()
        assert session.preview() == ("", "", False)


def test_checkpoints_are_skipped_where_a_text_is_longer() -> None:
    """Then one call translates once; fed word by word a session commits what it does without skipping."""
    engines: list[HashedEngine] = []

    class Engine(HashedEngine):
        n_admitted = 0

        def admit(self, requests: list[Request]) -> list[int]:
            self.n_admitted += 1
            return super().admit(requests)

    def make(capacity: int) -> Engine:
        engines.append(Engine())
        return engines[-1]  # type: ignore[return-value]

    class SkippingSession(Session):
        def _begin(self) -> SourceSegment:
            return AgreementSegment(self._translator, self._wait, skips=True)

    translator, words = Translator(make), ["ab각 ", "baé ", "aab ", "b🙂 ", "abba "]
    session, skipping = translator.open(4), SkippingSession(translator, 4)
    for word in words:
        assert skipping.feed(word) == session.feed(word)
    assert skipping.segment.committed
    (engine,) = engines
    before = engine.n_admitted  # type: ignore[attr-defined]
    update = SkippingSession(translator, 4).feed("".join(words))
    assert engine.n_admitted == before + 1  # type: ignore[attr-defined]
    assert not update.committed and update.tail


def test_refused() -> None:
    """Settings that a session cannot have, and texts that are no part of a line."""
    for options, name in (({"sample": True}, "sample"), ({"beam": 2}, "beam (with a bounded look-ahead)")):
        translator = Translator(
            lambda capacity: HashedEngine(), settings=Settings.from_dict(options), least_wait=3
        )
        with pytest.raises(SettingError) as refused:
            translator.open(5)
        assert f"cannot use {name}: leave it out" in str(refused.value)
    with pytest.raises(SettingError, match="wait is 2: this model needs 3 to"):
        hashed(3).open(2)
    with pytest.raises(DataError, match="line break"):
        hashed(0).open(4).feed("a\nb")
    with pytest.raises(ValueError, match="3 characters cannot be deleted from 'ab'"):
        session = hashed(0).open(4)
        session.feed("ab")
        session.delete(3)


# ---- models


def maker_of(name: str, engine: str) -> tuple[Any, Callable[[int], Any]]:
    """A small random model in single precision, and what makes engines for it."""
    model: Any = build(BOUNDED[name], scale=0.1).float()

    def make(capacity: int) -> Any:
        if engine == "torch":
            return TorchEngine([model], Options(), capacity, torch.device("cpu"))
        if engine == "graph":
            return CudaGraphEngine(
                [model], Options(), capacity, torch.device("cpu"), capture=lambda step: step
            )
        return NumbaEngine([packed(model)], Options(), capacity)

    return model, make


def some_lines(n: int) -> list[str]:
    """Lines of which the last one is longer than what an engine reads, and has room for, at first."""
    draw = random.Random(3)
    return ["".join(draw.choices(LETTERS, k=draw.randrange(1, 16) + 45 * (i == n - 1))) for i in range(n)]


def streamed(engine: Any, line: bytes, wait: int, pieces: Iterator[int] | None = None) -> Hypothesis:
    """The hypothesis of a line whose bytes are chosen as soon as they may be. pieces: how many come together;
    None: one by one."""
    (handle,), at, n_chosen = engine.admit([Request(b"", 0, wait=wait, is_open=True)]), 0, 0
    while at < len(line):
        n = next(pieces) if pieces else 1
        engine.extend(handle, line[at : at + n], at + n + 8, False)
        at = min(at + n, len(line))
        engine.advance(max(0, at - wait + 1 - n_chosen))
        n_chosen = len(engine.so_far(handle))
        assert n_chosen == max(0, at - wait + 1)
    engine.extend(handle, b"", len(line) + 8, True)
    while not (done := engine.finished()):
        engine.advance(8)
    return done[0][1][0]


def check_engine(name: str, engine: str, tolerance: float) -> None:
    """Compare random pieces of a line in an engine, and a session, with the whole line in the engine."""
    (model, make), draw = maker_of(name, engine), random.Random(5)
    least = model.config.least_wait
    limits = Settings.from_dict({"max_len_a": 1, "max_len_b": 4})
    translator = Translator(make, settings=limits, least_wait=least)
    reused = make(1)
    for number, line in enumerate(some_lines(5)):
        data, wait = line.encode(), least + 2 * number
        ((_, (expected,)),) = decode(make(1), [Request(data, len(data) + 8, wait=wait)])
        pieces = iter(lambda: draw.choice([0, 1, 1, 1, 2, 7, 80]), None)
        found = streamed(reused, data, wait, pieces)
        assert found.text == expected.text
        assert found.log_probability == pytest.approx(expected.log_probability, rel=0, abs=tolerance)
        assert len(found.text) >= len(data) + 1 - wait, "ended before its source"
        assert whole(translator, line, wait).encode() == expected.text
    n_begun = 0
    for wait in range(least, least + 4):
        pieces = ["a b", 1, "é각", "🙂", 1, "", "ab", None, "a", 1, "b" * wait, 2, "abab b", "a각", None]
        n_begun += play(translator, wait, [*pieces, draw.choice(LETTERS), 1, "각", "ab", 1, "a"])
    assert n_begun > 3


@pytest.mark.slow
@by_variant(("name", "engine"), rotated([*BOUNDED], ["torch", "graph"], 1))
def test_streaming_equals_batch_in_pytorch(name: str, engine: str) -> None:
    check_engine(name, engine, 1e-3)


@pytest.mark.slow
@by_variant("name", BOUNDED)
def test_streaming_equals_batch_to_the_bit_on_the_cpu_engine(name: str) -> None:
    check_engine(name, "numba", 0.0)


@by_variant("name", BOUNDED)
def test_every_column_is_encoded_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each instruction of the CPU engine's encoder is executed as often as the source has columns, and
    PyTorch's encoder is given each byte once, however the source comes."""
    line, executed, given = some_lines(5)[-1].encode(), [], []
    model, make = maker_of(name, "numba")
    run_encoder, encode = ModelSession.encode, model.encode

    def count(self: ModelSession, rows: Any, *rest: Any) -> None:
        executed.append(rows.span[:, 1] - rows.span[:, 0])
        run_encoder(self, rows, *rest)

    monkeypatch.setattr(ModelSession, "encode", count)
    streamed(make(1), line, model.config.least_wait)
    n_columns = len(model.encode(*source_tensors([Request(line, 0)]))[0][0]) - ("bytenet" in name)
    delay = 0 if name.startswith(("bytenet", "convs2s")) else model.config.encoder_lookahead
    assert len(executed) > 90 and set(sum(executed).tolist()) == {n_columns + delay}

    def note(src: Any, src_len: Any, *stream: Any) -> Any:
        given.append(src.shape[1] if stream else 0)
        return encode(src, src_len, *stream)

    monkeypatch.setattr(model, "encode", note)
    engine = TorchEngine([model], Options(), 1, torch.device("cpu"))
    streamed(engine, line, model.config.least_wait)
    assert len(given) > 90 and sum(given) == len(line) + 1


def test_a_session_holds_one_engine_and_gives_it_back() -> None:
    """An engine serves one open segment; a segment that ends, is closed or left for another one frees its
    slot, and a session that nobody holds any more frees its engine."""
    engines = list[HashedEngine]()

    def make(capacity: int) -> HashedEngine:
        engines.append(HashedEngine())
        return engines[-1]

    translator = Translator(make, least_wait=3)
    with translator.open(3) as first, translator.open(3) as second:
        first.feed("abab")
        second.feed("ba")
        assert len(engines) == 2 and not any(engine.room() for engine in engines)
    assert all(engine.room() for engine in engines)
    assert first.segment.committed and first.finish() == ("", "", False)
    for end in (first.finish, first.close, lambda: first.delete(1)):
        first.feed("abab")
        end()
        assert len(engines) == 2 and all(engine.room() for engine in engines)
    abandoned: Any = translator.open(3)
    abandoned.feed("abab")
    engine = weakref.ref(abandoned.segment._engine)
    engines.clear()
    assert engine() is not None
    del abandoned
    assert engine() is None


def test_an_engine_that_failed_is_not_used_again() -> None:
    """After an error the next call translates the same source with another engine."""
    engines = list[HashedEngine]()

    class Failing(HashedEngine):
        def advance(self, n_steps: int) -> None:
            if self is engines[0]:
                raise KeyboardInterrupt
            super().advance(n_steps)

    def make(capacity: int) -> HashedEngine:
        engines.append(Failing())
        return engines[-1]

    session = Translator(make, least_wait=3).open(3)
    session.feed("ab")
    with pytest.raises(KeyboardInterrupt):
        session.feed("ab a")
    assert session.feed("b").committed + session.finish().committed == whole(hashed(3), "abab ab", 3)
    assert len(engines) == 2


@pytest.mark.slow
@by_variant("name", BOUNDED)
def test_both_engines_wait_alike(name: str) -> None:
    """Texts and scores with any wait, sentences of several waits side by side."""
    model = build(BOUNDED[name], scale=0.1).float()
    least = model.config.least_wait
    requests = [Request(line.encode(), 20, wait=least + i % 5) for i, line in enumerate(some_lines(9))]
    requests[3] = requests[3]._replace(wait=0)
    found = []
    for engine in (
        TorchEngine([model], Options(), 4, torch.device("cpu")),
        NumbaEngine([packed(model)], Options(), 4),
    ):
        by_index = dict(decode(engine, requests))
        found.append([by_index[i][0] for i in range(len(requests))])
    for ours, theirs in zip(*found, strict=True):
        assert ours.text == theirs.text
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-4)


def test_no_output_ends_before_its_source() -> None:
    """A model that would end at once writes as many bytes as are chosen before the source has ended."""
    model: Any = build(BOUNDED["luong-location-bounded"], scale=0.1).float()
    with torch.no_grad():
        model.decoder.output.weight[EOS] = 0.0
        model.decoder.combine.weight.zero_()  # all logits are 0 but for those that follow
        model.decoder.output.bias = torch.nn.Parameter(torch.zeros(256))
        model.decoder.output.bias[EOS] = 50.0
    for wait, expected in ((3, 8), (6, 5), (20, 0), (0, 0)):
        request = Request(b"abcdefghij", 40, wait=wait)
        ((_, (best,)),) = decode(TorchEngine([model], Options(), 1, torch.device("cpu")), [request])
        assert len(best.text) == expected == request.earliest_end
