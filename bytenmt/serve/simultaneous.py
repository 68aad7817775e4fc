"""Translate lines while they are being typed: a session of decoding.simultaneous for the server.

Sentences that have ended are translated as those of other requests are, and only the last one of a line by a
session. Workers decode for sessions, too, side by side with other requests, and clients take turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from functools import partial
from os.path import commonprefix
from typing import NamedTuple

from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.decoding.line_batch import Chunk, TranslationResult, split_line
from bytenmt.decoding.simultaneous import LONGEST_WORD, AgreementSegment, Session, SourceSegment
from bytenmt.decoding.translator import Translator
from bytenmt.serve.detect import Guess
from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import Refusal
from bytenmt.serve.service import AUTO, Service, TranslateParams


class TypingState(Enum):
    """The state of a text: a word is being typed, the client pauses, or the line is finished."""

    TYPING = "typing"
    PAUSED = "paused"
    FINISHED = "finished"


class WorkerSegment(AgreementSegment):
    """A segment of local agreement for which a worker decodes."""

    def __init__(self, translator: Translator, wait: int, decode: Callable[[Request], Hypothesis]) -> None:
        super().__init__(translator, wait, skips=True)
        self._ask = decode

    def _decode(self, request: Request) -> bytes:
        return self._ask(request).text


class WorkerSession(Session):
    """A session for which a worker decodes. decode: returns the best translation of a request."""

    def __init__(self, translator: Translator, wait: int, decode: Callable[[Request], Hypothesis]) -> None:
        self._begin_segment = partial(WorkerSegment, translator, wait, decode)
        super().__init__(translator, wait)

    def _begin(self) -> SourceSegment:
        return self._begin_segment()


class LineUpdate(NamedTuple):
    """The changes of the translation of a line.

    committed: text to append to the committed text, or to replace it if is_new_segment. tail: the text after
    it, which may be revised. is_new_segment: whether source was changed that the committed text depended on,
    or this is the first update. results: source and result of each sentence, where they are known.
    """

    committed: str
    tail: str
    is_new_segment: bool
    results: list[tuple[str, TranslationResult]]


class TypedLine:
    """The simultaneous translation of one line that a client types, edits and finishes.

    params: as Service.check returns them; keep and glossary have no effect on models with bounded look-ahead.
    wait: see Translator.open. guess: the detected language, None unless the source is AUTO. It is detected
    anew while no committed text depends on it.
    """

    def __init__(self, service: Service, params: TranslateParams, wait: int) -> None:
        self._service, self._params, self._wait = service, params, wait
        self._loop = asyncio.get_running_loop()
        self._decoding: Future[list[TranslationResult]] | None = None
        self._result: TranslationResult | None = None
        self._step: Direction | None = None
        self._session: Session  # of the last sentence
        self._committed: str | None = None  # that the client knows; None before the first update
        self._tail, self._consumed = "", ""
        self._words: tuple[str, bytes] | None = None  # and committed text, to which _tail_of_words belongs
        self._tail_of_words = ""
        self._n_counted = 0  # characters, in the metrics
        self._is_closed = self.is_finished = False
        self.guess: Guess | None = None

    def unchanged(self) -> LineUpdate:
        """Return the update for a text that is not translated, because a newer one waits."""
        return self._changed(self._committed or "", self._tail, [])

    async def update(self, text: str, state: TypingState, is_judged: bool = False) -> LineUpdate:
        """Translate what was changed; return how the translation changes.

        text: the line as it now is, without line breaks. is_judged: see Job, for the last sentence; those
        that have ended always are. Raises Refusal. After an exception or cancellation only `close` may
        follow.
        """
        update = await self._service.observed(self._update(text, state, is_judged))
        self.is_finished = state == TypingState.FINISHED
        self._service.metrics.count(
            "characters_total",
            max(0, len(text) - self._n_counted),
            direction=f"{self._step.source if self._step else self._params.target}-{self._params.target}",
        )
        self._n_counted = len(text)
        return update

    def close(self) -> None:
        """Abandon what is being decoded. Call it in the event loop's thread."""
        self._is_closed = True
        if self._decoding is not None:
            self._decoding.cancel()

    async def _update(self, text: str, state: TypingState, is_judged: bool) -> LineUpdate:
        service, target = self._service, self._params.target
        source = self._params.source
        if source == AUTO and self._step and self._committed and text.startswith(self._consumed):
            source = self._step.source
        elif source == AUTO and text.strip():
            self.guess = service.guess(text, target)
            source = self.guess.language
        path = service.languages.path(source, target) if source != AUTO else []
        if path is None or len(path) > 1:
            raise Refusal(400, f"{source}-{target} has no model of its own: send the text to /translate")
        if not path or not text.strip():
            self._step = None
            is_finished = state == TypingState.FINISHED
            return self._changed(text if is_finished else "", "" if is_finished else text, [])
        if path[0] != self._step:
            (self._step,) = path
            self._translator = service.workers[self._step].make_translator()
            self._begin(text)
        is_bounded = self._translator.least_wait > 0
        threads = service.bounded_thread if is_bounded else service.session_threads
        return await self._loop.run_in_executor(threads, self._translate, text, state, is_judged)

    # ---- in a thread of Service, which waits for workers

    def _translate(self, text: str, state: TypingState, is_judged: bool) -> LineUpdate:
        if not text.startswith(self._ended):
            self._session.close()
            self._begin(text)
        assert self._step is not None
        rules, limit = self._service.rules_of(self._params, self._step), self._translator.max_source_bytes
        line = text[len(self._ended) :].encode()
        *ended, last = split_line(line, limit, rules, self._translator.languages)
        for chunk in [*ended, last] if state == TypingState.FINISHED else ended:
            self._end_sentence(chunk)
        results, tail = list(self._results), ""
        if state != TypingState.FINISHED:
            sentence = last.text.decode()
            self._feed(sentence)
            self._result, self._is_judged = None, is_judged
            tail = self._translate_tail(sentence, state)
            results += [(sentence, self._result)] if self._result else []
        segment = self._session.segment
        self._consumed = self._ended + segment.source[: segment.consumed].decode("utf-8", "ignore")
        return self._changed(self._translated + segment.committed.decode(), tail, results)

    def _translate_tail(self, sentence: str, state: TypingState) -> str:
        """Return the translation after the committed text; while a word is typed, that of the words before.

        For models with bounded look-ahead, which commit at once, it is empty then.
        """
        if self._translator.least_wait:
            return "" if state == TypingState.TYPING else self._session.preview().tail
        words, _, word = sentence.rpartition(" ")
        if state == TypingState.PAUSED or len(word.encode()) > LONGEST_WORD:
            words = sentence
        committed = self._session.segment.committed
        if self._words != (words, committed) or words == sentence:
            self._words = words, committed
            text = self._decode(Request(words.encode(), 0, committed)).text if words else committed
            self._tail_of_words = text[len(committed) :].decode()
        if words != sentence:
            self._result = None  # it is that of the words
        return self._tail_of_words

    def _begin(self, text: str) -> None:
        """Translate the line anew. text: of which white space at the beginning is copied."""
        self._ended = self._translated = text[: len(text) - len(text.lstrip())]
        self._results: list[tuple[str, TranslationResult]] = []
        self._begin_sentence()

    def _begin_sentence(self) -> None:
        self._is_judged = False
        self._words = None
        model, wait = self._translator, self._wait
        self._session = model.open(wait) if model.least_wait else WorkerSession(model, wait, self._decode)

    def _feed(self, sentence: str) -> None:
        """Have the session delete and append what makes its source the sentence."""
        source = self._session.segment.source.decode()
        n_same = len(commonprefix([source, sentence]))
        if n_same < len(source) and self._session.delete(len(source) - n_same).is_new_segment:
            n_same = 0
        self._session.feed(sentence[n_same:])

    def _end_sentence(self, chunk: Chunk) -> None:
        """Translate a sentence to its end. Where nothing of it is committed, it is translated at once."""
        sentence = chunk.text.decode()
        self._result, self._is_judged = None, True
        if self._translator.least_wait or self._session.segment.committed:
            self._feed(sentence)
            self._session.finish()
            translation = self._session.segment.committed
        else:
            translation = self._decode(Request(chunk.text, 0)).text
        if self._result is not None and sentence.strip():
            self._results.append((sentence, self._result))
        self._ended += sentence + chunk.separator.decode()
        self._translated += (translation + chunk.separator).decode()
        self._begin_sentence()

    def _decode(self, request: Request) -> Hypothesis:
        """Have the worker translate a sentence after a prefix, and wait for it.

        White space at the end is left out, as in other requests. Raises CancelledError after `close`.
        """
        assert self._step is not None and request.source is not None
        params = self._params._replace(details=self._is_judged)
        lines = [request.source.rstrip()]
        asking = self._service.ask(self._step, lines, 1, None, params, request.prefix)
        self._decoding = asyncio.run_coroutine_threadsafe(asking, self._loop)
        if self._is_closed:  # before there was anything to cancel
            self._decoding.cancel()
        (self._result,) = self._decoding.result()
        return self._result.best

    def _changed(self, committed: str, tail: str, results: list[tuple[str, TranslationResult]]) -> LineUpdate:
        """Return what the client must change to show this."""
        before, self._committed, self._tail = self._committed, committed, tail
        is_new = before is None or not committed.startswith(before)
        return LineUpdate(committed if is_new else committed[len(before or "") :], tail, is_new, results)
