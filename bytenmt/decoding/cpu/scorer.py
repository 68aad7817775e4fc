"""Score given texts on the CPU, with the engine's programs but without a search.

A pass reads one byte of many texts, or many bytes of few texts. In the latter case instructions
that depend on a recurrent state are executed byte by byte, and all others at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from bytenmt.decoding.cpu.packing import PackedModel
from bytenmt.decoding.cpu.session import ModelSession
from bytenmt.decoding.cpu.thread_team import ThreadTeam
from bytenmt.decoding.interface import SearchOptions
from bytenmt.decoding.scorer import TextScores, Weights
from bytenmt.decoding.search.state import FREE, RUNNING, ForcedText, SearchParams, SearchState
from bytenmt.ngram_hash import START
from bytenmt.utf8 import BOS

MAX_PASSES = 16  # decode steps per call of compiled code
# Bytes of texts, or attention weights, held at once, unless a single text has more.
MAX_HELD_VALUES = 1 << 24


# How many texts are read together, and how many rows a pass has at most.
RECURRENT_SHAPE = 64, 64
CONVOLUTIONAL_SHAPE = 4, 256


class _TextBatch:
    """Texts in slots that several models read together."""

    def __init__(
        self,
        packed: Sequence[PackedModel],
        n_slots: int,
        n_columns: int,
        team: ThreadTeam,
        n_layers: int = 0,
    ) -> None:
        """n_columns: bytes of a text per pass at most. n_layers: attention layers to record."""
        # Whether a pass reads equally many bytes of each text.
        self._even = any(model.program.states for model in packed)
        self._n_slots = n_slots
        self._n_columns = n_columns
        self._n_layers = n_layers
        self._models = [
            ModelSession(model, n_slots, 1, team.max_threads, n_columns) for model in packed
        ]
        self._params = SearchParams.from_options(SearchOptions())
        self._team = team
        self._search = self._allocate(0, 0)

    def start_texts(self, sources: Sequence[bytes | None]) -> None:
        """Begin texts with these sources, in the first slots."""
        search = self._search
        n = len(sources)
        search.step[:n] = 0
        search.last[:n] = BOS
        search.parent[:n] = 0
        search.word[:, :n] = START, 0
        for model in self._models:
            for rows in model.prepare(sources, range(n)):
                self._team.run(partial(model.encode, rows, search, self._params))

    def read(self, slot: int, text: bytes) -> None:
        """Put the text, or part of a text, that `run` reads next into a slot."""
        self._search.forced.fill_slot(slot, text)
        self._search.state[slot] = RUNNING

    def make_room(self, length: int, columns: int = 0) -> None:
        """Make room for texts of `length` bytes, and for the attention over so many columns."""
        if length > self._search.forced.text.shape[1] or columns:
            larger = self._allocate(length, columns)
            larger.step[:] = self._search.step
            larger.last[:] = self._search.last
            larger.word[:] = self._search.word
            self._search = larger

    def run(self) -> None:
        """Execute passes until all texts are read."""
        search = self._search
        search.state[search.forced.n_text == search.forced.n_read] = FREE
        while (search.state == RUNNING).any():
            left = (search.forced.n_text - search.forced.n_read)[search.state == RUNNING]
            if self._even:
                max_columns = min(self._n_columns, int(left.min()))
                n_passes = int(left.min()) // max_columns
            else:
                max_columns = self._n_columns
                n_passes = int(-(-left.max() // max_columns))
            # The models of an ensemble take turns.
            n_passes = min(n_passes, MAX_PASSES if len(self._models) == 1 else 1)
            search.forced.max_columns[0] = max_columns
            for which, model in enumerate(self._models):
                call = partial(model.run_steps, search, self._params, which, n_passes)
                self._team.run_timed(call)
        search.state[:] = FREE

    def scores(self, slot: int) -> TextScores:
        """Return the scores of the text that was read in a slot."""
        forced = self._search.forced
        n = int(forced.n_text[slot])
        return TextScores(forced.log_p[slot, :n].copy(), forced.rank[slot, :n].copy())

    def attention(self, slot: int, columns: int) -> list[Weights]:
        """Return the attention weights of each layer over the first `columns` columns."""
        forced = self._search.forced
        weights = forced.attention[slot, : int(forced.n_text[slot]), :, :columns]
        return [weights[:, layer].copy() for layer in range(self._n_layers)]

    def _allocate(self, length: int, columns: int) -> SearchState:
        """Return the search state for texts of `length` bytes."""
        n_slots = self._n_slots
        n_rows = n_slots * self._n_columns
        forced = ForcedText.allocate(n_slots, length, self._n_layers, columns)
        return SearchState.allocate(n_slots, 1, len(self._models), 0, 0, n_rows, forced)


class CpuStream:
    """A scorer.Stream on the CPU: scores a text without a source as it arrives.

    packed: language models; several form an ensemble. team: the threads that compute.
    """

    def __init__(self, packed: Sequence[PackedModel], team: ThreadTeam) -> None:
        self._batch = _TextBatch(packed, 1, _shape(packed)[1], team)
        self._batch.start_texts([None])

    def read(self, data: bytes) -> TextScores:
        """Return log-probability and rank of each of the next bytes, given all earlier bytes."""
        self._batch.make_room(len(data))
        self._batch.read(0, data)
        self._batch.run()
        return self._batch.scores(0)


class CpuScorer:
    """A scorer.Scorer on the CPU: scores fixed texts by packed models; several form an ensemble.

    The scores of a text have the same bits whatever is read beside it, and however many threads (at
    most `threads`) compute them.
    """

    def __init__(self, packed: Sequence[PackedModel], threads: int = 1) -> None:
        self._packed = packed
        self._team = ThreadTeam(threads)

    def open_stream(self) -> CpuStream:
        """Return a new stream, which scores one text as it arrives."""
        return CpuStream(self._packed, self._team)

    def score_texts(
        self, sources: Sequence[bytes] | None, texts: Sequence[bytes]
    ) -> list[TextScores]:
        """Return log-probability and rank of every byte of each text, in their order.

        texts: none empty. sources: the source of each, without EOS; None for language models.
        """
        all_scores: dict[int, TextScores] = {}
        for batch, group in self._groups(sources, texts):
            all_scores.update((which, batch.scores(slot)) for slot, which in enumerate(group))
        return [all_scores[i] for i in range(len(texts))]

    def attention_weights(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[dict[int, Weights]]:
        """Return the attention weights of each pair (source, text), by decoder layer from 1.

        Weights (bytes of text, bytes of source + 1) are float32; the last column is the source's
        EOS. Only for one model.
        """
        (packed,) = self._packed
        program = packed.program
        sources = [source for source, _ in pairs]
        texts = [text for _, text in pairs]
        weights_of_pairs: dict[int, dict[int, Weights]] = {}
        for batch, group in self._groups(sources, texts, program.n_attentions):
            for slot, which in enumerate(group):
                n = len(sources[which])
                columns = [*range(n + 1)]
                if program.is_reversed:
                    columns[:n] = reversed(range(n))
                weights = [layer[:, columns] for layer in batch.attention(slot, n + 1)]
                weights_of_pairs[which] = dict(zip(program.attending, weights, strict=True))
        return [weights_of_pairs[i] for i in range(len(pairs))]

    def _groups(
        self, sources: Sequence[bytes] | None, texts: Sequence[bytes], n_layers: int = 0
    ) -> Iterator[tuple[_TextBatch, list[int]]]:
        """Read texts in groups of similar length; yield each, and its texts' indices by slot.

        n_layers: attention layers whose weights are recorded.
        """
        if not texts:
            return
        longest = max(map(len, texts))
        columns = max(map(len, sources or ()), default=0) + 1 if n_layers > 0 else 0
        text_values = max(1, longest * max(1, n_layers * columns))
        n_slots, n_rows = _shape(self._packed)
        n_slots = max(1, min(n_slots, len(texts), MAX_HELD_VALUES // text_values))
        batch = _TextBatch(self._packed, n_slots, n_rows // n_slots, self._team, n_layers)
        batch.make_room(longest, columns)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for first in range(0, len(order), n_slots):
            group = order[first : first + n_slots]
            batch.start_texts([None if sources is None else sources[i] for i in group])
            for slot, which in enumerate(group):
                batch.read(slot, texts[which])
            batch.run()
            yield batch, group


def _shape(packed: Sequence[PackedModel]) -> tuple[int, int]:
    is_recurrent = any(model.program.states for model in packed)
    return RECURRENT_SHAPE if is_recurrent else CONVOLUTIONAL_SHAPE
