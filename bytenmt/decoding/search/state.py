"""The search state of a batch, as NumPy arrays that compiled code and Python share.

A slot holds one sentence of the batch; it is free again when the sentence is done. A beam is one of
the hypotheses of a sentence. A row is a byte that a decoder reads in one pass: the last byte of a
beam, or a byte of a given text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.kernel_constants import FIRST_SENTINEL, N_SENTINELS
from bytenmt.ngram_hash import START
from bytenmt.utf8 import ACCEPT, BOS, N_IDS, UTF8_NEXT, allowed_bytes

if TYPE_CHECKING:
    from bytenmt.decoding.interface import Request, SearchOptions

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

FREE, RUNNING, DONE = 0, 1, 2  # states of a slot


class SearchParams(NamedTuple):
    """The options of a search (see interface.SearchOptions) and tables of UTF-8, as a record for compiled
    code.

    ngram: size of the n-grams that may not be repeated, 0 for no blocking. utf8_allowed (5, 10,
    256) bool: whether a byte may come, [bytes left, state, byte]. utf8_next (10, 256) uint8: the
    state after a byte.
    """

    beam: int
    n_best: int
    length_penalty: float
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    ngram: int
    utf8_allowed: npt.NDArray[np.bool_]
    utf8_next: Bytes

    @staticmethod
    def from_options(options: SearchOptions) -> SearchParams:
        """Return the record of these options."""
        return SearchParams(
            options.beam,
            options.n_best,
            options.length_penalty,
            options.sample,
            options.temperature,
            options.top_k,
            options.top_p,
            options.no_repeat_ngram_size,
            allowed_bytes(options.endless),
            UTF8_NEXT,
        )


class ForcedText(NamedTuple):
    """Fixed texts that are scored instead of searched for, one in each of p slots, and their
    scores.

    p is 0 if there is a search. text (p, c) uint8: the bytes. n_text, n_read (p,) int64: their
    number, and how many have been scored. most (1,) int64: bytes of a text that one pass reads at
    most. log_p (p, c) float64, rank (p, c) int64: results, see scorer.TextScores. attention (p, c, l,
    s) float32: the weights of l attention instructions over s source columns; l is 0 if they are
    not recorded.
    """

    text: Bytes
    n_text: Ints
    n_read: Ints
    most: Ints
    log_p: Reals
    rank: Ints
    attention: npt.NDArray[np.float32]

    @staticmethod
    def allocate(n_slots: int, length: int, n_layers: int = 0, columns: int = 0) -> ForcedText:
        """Return n_slots empty slots for texts of at most `length` bytes.

        n_layers, columns: room for the attention weights of so many layers over so many source
        columns.
        """
        each = (n_slots, length)
        return ForcedText(
            np.zeros(each, np.uint8),
            np.zeros(n_slots, np.int64),
            np.zeros(n_slots, np.int64),
            np.ones(1, np.int64),
            np.zeros(each),
            np.zeros(each, np.int64),
            np.zeros((*each, n_layers, columns if n_layers else 0), np.float32),
        )

    def fill_slot(self, slot: int, text: bytes) -> None:
        """Put a text, or the next part of a text, into a slot, to be scored from its first byte."""
        self.text[slot, : len(text)] = np.frombuffer(text, np.uint8)
        self.n_text[slot], self.n_read[slot] = len(text), 0


class SearchState(NamedTuple):
    """The search of a batch: sentences in p slots, with b beams (open hypotheses) each.

    Slots. state (p,) int64: FREE, RUNNING or DONE. step, limit (p,) int64: the number of bytes
    chosen, and the length limit. prefix (p, _) uint8, n_prefix (p,) int64: forced bytes at the
    beginning, and their number. before (p, 8) uint8: for each sentinel the bits of those that must
    have been written before it.

    Beams. last (p, b) uint8: the byte to read next, BOS first. parent (p, b) int64: the beam of the
    previous step that each beam continues. utf8 (p, b) uint8: state of the UTF-8 automaton. score
    (p, b) float64: log-probability so far, -inf for an unused beam. bonus (p, b) float64: added to
    the score to rank a beam that took a sentinel in place of EOS. pending (p, b) uint8: the bits of
    the sentinels to be written.
    past_end (p, b) bool: whether EOS was likelier than a byte that was chosen while one was
    pending.
    draw_keys (p, b) uint64: for sampling. word (2, p, b, 2) uint64: the last eight bytes read and
    their prefix hash, see ngram_hash.py, in two banks for even and odd steps; read by n-gram
    tables.

    Finished hypotheses, best first. n_finished (p,) int64: their number. finished_score,
    finished_log_p (p, b) float64: the score that ranks them, and their log-probability.
    finished_step, finished_beam (p, b) int64: the step and the beam at which EOS was chosen.
    finished_past_end (p, b) bool: see past_end.

    History. history_byte (p, t, b) uint8, history_parent (p, t, b) uint16: the byte chosen at every
    step, and the beam that it continues.

    Rows of the current pass. row_slot (r,) int64: their slots; the beams of a sentence, or the
    bytes of a forced text, stand next to each other; r is at least p * b. n_rows (1,) int64: their
    number. logits (k, r, 256) float32: of k models. log_p (r, 256) float32: natural
    log-probabilities of the next byte, averaged over the models, which the search reads.
    """

    state: Ints
    step: Ints
    limit: Ints
    n_prefix: Ints
    prefix: Bytes
    before: Bytes
    last: Bytes
    parent: Ints
    utf8: Bytes
    score: Reals
    bonus: Reals
    pending: Bytes
    past_end: npt.NDArray[np.bool_]
    draw_keys: npt.NDArray[np.uint64]
    word: npt.NDArray[np.uint64]
    n_finished: Ints
    finished_score: Reals
    finished_log_p: Reals
    finished_step: Ints
    finished_beam: Ints
    finished_past_end: npt.NDArray[np.bool_]
    history_byte: Bytes
    history_parent: npt.NDArray[np.uint16]
    row_slot: Ints
    n_rows: Ints
    logits: npt.NDArray[np.float32]
    log_p: npt.NDArray[np.float32]
    forced: ForcedText

    @staticmethod
    def allocate(
        n_slots: int,
        beam: int,
        n_models: int,
        length: int,
        prefix: int,
        n_rows: int = 0,
        forced: ForcedText | None = None,
    ) -> SearchState:
        """Return n_slots free slots for outputs of at most `length` bytes and prefixes of `prefix`
        bytes.

        n_models: number of models whose logits are stored; 0 if an engine writes log_p itself.
        n_rows: rows of a pass at most, if more than slots times beams. forced: texts to score, no
        search.
        """
        each = (n_slots, beam)
        n_rows = max(n_rows, n_slots * beam)
        steps = (n_slots, length + 1, beam)
        return SearchState(
            state=np.zeros(n_slots, np.int64),
            step=np.zeros(n_slots, np.int64),
            limit=np.zeros(n_slots, np.int64),
            n_prefix=np.zeros(n_slots, np.int64),
            prefix=np.zeros((n_slots, max(1, prefix)), np.uint8),
            before=np.zeros((n_slots, N_SENTINELS), np.uint8),
            last=np.full(each, BOS, np.uint8),
            parent=np.zeros(each, np.int64),
            utf8=np.zeros(each, np.uint8),
            score=np.zeros(each),
            bonus=np.zeros(each),
            pending=np.zeros(each, np.uint8),
            past_end=np.zeros(each, np.bool_),
            draw_keys=np.zeros(each, np.uint64),
            word=np.zeros((2, *each, 2), np.uint64),
            n_finished=np.zeros(n_slots, np.int64),
            finished_score=np.full(each, -np.inf),
            finished_log_p=np.full(each, -np.inf),
            finished_step=np.zeros(each, np.int64),
            finished_beam=np.zeros(each, np.int64),
            finished_past_end=np.zeros(each, np.bool_),
            history_byte=np.zeros(steps, np.uint8),
            history_parent=np.zeros(steps, np.uint16),
            row_slot=np.zeros(n_rows, np.int64),
            n_rows=np.zeros(1, np.int64),
            logits=np.zeros((n_models, n_rows, N_IDS), np.float32),
            log_p=np.zeros((n_rows, N_IDS), np.float32),
            forced=forced or ForcedText.allocate(0, 0),
        )

    def enlarged(self, length: int, prefix: int) -> SearchState:
        """Return a copy with room for outputs of `length` bytes and prefixes of `prefix` bytes."""
        n_slots, beam = self.last.shape
        new = SearchState.allocate(
            n_slots, beam, len(self.logits), length, prefix, len(self.row_slot)
        )
        for old, copy in zip(flatten_arrays(self), flatten_arrays(new), strict=True):
            copy[tuple(slice(n) for n in old.shape)] = old
        return new

    def fill_slot(self, slot: int, request: Request, draw_keys: list[int] | None) -> None:
        """Put a new sentence into a slot, in the state before its first byte; the arrays must have
        room.

        draw_keys: keys of the random numbers of each beam, in sampling; None in a search.
        """
        prefix, sentinels = request.prefix, sentinel_numbers(request.source or b"")
        self.state[slot], self.step[slot] = RUNNING, 0
        self.limit[slot] = max(request.limit, len(prefix) + len(sentinels))
        self.prefix[slot, : len(prefix)] = np.frombuffer(prefix, np.uint8)
        self.n_prefix[slot] = len(prefix)
        self.pending[slot] = sum(1 << number for number in sentinels)
        self.before[slot] = 0
        for first, second in request.pairs:
            self.before[slot, second] |= 1 << first
        self.last[slot], self.utf8[slot] = BOS, ACCEPT
        self.parent[slot] = 0 if draw_keys is None else np.arange(self.parent.shape[1])
        # All beams begin alike, so one of them is enough, except for independent samples.
        self.score[slot] = -np.inf if draw_keys is None else 0.0
        self.score[slot, 0] = 0.0
        self.bonus[slot] = 0.0
        self.past_end[slot] = False
        self.draw_keys[slot] = 0 if draw_keys is None else draw_keys
        self.word[:, slot] = START, 0
        self.n_finished[slot] = 0
        self.finished_score[slot] = self.finished_log_p[slot] = -np.inf

    def text(self, slot: int, step: int, beam: int) -> bytes:
        """Return the first `step` bytes of a hypothesis. beam: the beam that it was at that step."""
        if self.last.shape[1] == 1:
            return self.history_byte[slot, :step, 0].tobytes()
        text = bytearray(step)
        for position in range(step - 1, -1, -1):
            text[position] = self.history_byte[slot, position, beam]
            beam = int(self.history_parent[slot, position, beam])
        return bytes(text)


def sentinel_numbers(data: bytes) -> list[int]:
    """Return the numbers of the sentinels in a text, in their order: byte 0xF5 has the number 0."""
    return [
        byte - FIRST_SENTINEL
        for byte in data
        if FIRST_SENTINEL <= byte < FIRST_SENTINEL + N_SENTINELS
    ]


def flatten_arrays(tree: tuple[Any, ...]) -> list[Any]:
    """Return the leaves (arrays) of nested tuples, in order."""
    return [
        leaf
        for part in tree
        for leaf in (flatten_arrays(part) if isinstance(part, tuple) else [part])
    ]
