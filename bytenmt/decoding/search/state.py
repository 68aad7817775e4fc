"""Hold the search state of a batch, as NumPy arrays that compiled code and Python share.

A slot holds one sentence of the batch; it is free again when the sentence is done. A beam is one of
the hypotheses of a sentence. A row is a byte that a decoder reads in one pass: the last byte of a
beam, or a byte of a given text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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
Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

# States of a slot.
FREE = 0
RUNNING = 1
DONE = 2


class SearchParams(NamedTuple):
    """The options of a search and tables of UTF-8, as a record for compiled code."""

    # See interface.SearchOptions.
    beam: int
    n_best: int
    length_penalty: float
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    ngram: int  # size of the n-grams that may not be repeated; 0: no blocking
    # (5, 10, 256): whether a byte may come, [bytes left, state, byte].
    utf8_allowed: Annotated[Flags, 3]
    utf8_next: Annotated[Bytes, 2]  # (10, 256): the state after a byte

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

    p is 0 if there is a search.
    """

    text: Annotated[Bytes, 2]  # (p, c): the bytes
    n_text: Annotated[Ints, 1]  # (p,): bytes of each text
    n_read: Annotated[Ints, 1]  # (p,): bytes that have been scored
    max_columns: Annotated[Ints, 1]  # (1,): bytes of a text that one pass reads at most
    log_p: Annotated[Reals, 2]  # (p, c): result, see scorer.TextScores
    rank: Annotated[Ints, 2]  # (p, c): result, see scorer.TextScores
    # (p, c, l, s): the weights of l attention instructions over s source columns; l is 0 if they
    # are not recorded.
    attention: Annotated[Floats, 4]

    @staticmethod
    def allocate(n_slots: int, length: int, n_layers: int = 0, columns: int = 0) -> ForcedText:
        """Return n_slots empty slots for texts of at most `length` bytes.

        n_layers, columns: room for the attention weights of so many layers over so many source
        columns.
        """
        if n_layers == 0:
            columns = 0
        return ForcedText(
            text=np.zeros((n_slots, length), np.uint8),
            n_text=np.zeros(n_slots, np.int64),
            n_read=np.zeros(n_slots, np.int64),
            max_columns=np.ones(1, np.int64),
            log_p=np.zeros((n_slots, length)),
            rank=np.zeros((n_slots, length), np.int64),
            attention=np.zeros((n_slots, length, n_layers, columns), np.float32),
        )

    def fill_slot(self, slot: int, text: bytes) -> None:
        """Put a text, or the next part of a text, into a slot, to be scored from its first byte."""
        self.text[slot, : len(text)] = np.frombuffer(text, np.uint8)
        self.n_text[slot] = len(text)
        self.n_read[slot] = 0


class Workspace(NamedTuple):
    """Temporary arrays of compiled code, overwritten for every row, beam or sentence."""

    # Of a row.
    exponentials: Annotated[Floats, 1]  # (256,): of its logits

    # Of a beam.
    allowed: Annotated[Flags, 1]  # (256,): its possible next bytes
    blocked: Annotated[Flags, 1]  # (256,): those that would repeat an n-gram
    text: Annotated[Bytes, 1]  # (t,): its bytes so far
    values: Annotated[Floats, 1]  # (256,): what its next bytes are ranked by
    order: Annotated[Ints, 1]  # (256,): its possible next bytes, the likeliest first
    weights: Annotated[Reals, 1]  # (256,): their shares in a draw

    # The best candidates of a sentence, best first.
    ranking: Annotated[Reals, 1]  # (2 * b,): their values
    number: Annotated[Ints, 1]  # (2 * b,): beam * 256 + byte

    # Copies of what the beams of a sentence have in SearchState.
    utf8: Annotated[Bytes, 1]  # (b,)
    score: Annotated[Reals, 1]  # (b,)
    bonus: Annotated[Reals, 1]  # (b,)
    pending: Annotated[Bytes, 1]  # (b,)
    past_end: Annotated[Flags, 1]  # (b,)

    @staticmethod
    def allocate(beam: int, length: int) -> Workspace:
        """Return uninitialised arrays for `beam` beams and texts of at most `length` bytes."""
        n_candidates = 2 * beam  # at least `beam` of these do not end: each beam has one EOS
        return Workspace(
            exponentials=np.empty(N_IDS, np.float32),
            allowed=np.empty(N_IDS, np.bool_),
            blocked=np.empty(N_IDS, np.bool_),
            text=np.empty(length + 1, np.uint8),
            values=np.empty(N_IDS, np.float32),
            order=np.empty(N_IDS, np.int64),
            weights=np.empty(N_IDS),
            ranking=np.empty(n_candidates),
            number=np.empty(n_candidates, np.int64),
            utf8=np.empty(beam, np.uint8),
            score=np.empty(beam),
            bonus=np.empty(beam),
            pending=np.empty(beam, np.uint8),
            past_end=np.empty(beam, np.bool_),
        )


class SearchState(NamedTuple):
    """The search of a batch: sentences in p slots, with b beams (open hypotheses) each."""

    # Slots.
    state: Annotated[Ints, 1]  # (p,): FREE, RUNNING or DONE
    step: Annotated[Ints, 1]  # (p,): bytes chosen so far
    limit: Annotated[Ints, 1]  # (p,): bytes at most
    n_prefix: Annotated[Ints, 1]  # (p,): forced bytes at the beginning
    prefix: Annotated[Bytes, 2]  # (p, _): these bytes
    # (p, 8): for each sentinel the bits of those that must have been written before it.
    before: Annotated[Bytes, 2]

    # Beams.
    last: Annotated[Bytes, 2]  # (p, b): the byte to read next, BOS first
    parent: Annotated[Ints, 2]  # (p, b): the beam of the previous step that each beam continues
    utf8: Annotated[Bytes, 2]  # (p, b): state of the UTF-8 automaton
    score: Annotated[Reals, 2]  # (p, b): log-probability so far, -inf for an unused beam
    # (p, b): added to the score to rank a beam that took a sentinel in place of EOS.
    bonus: Annotated[Reals, 2]
    pending: Annotated[Bytes, 2]  # (p, b): the bits of the sentinels to be written
    # (p, b): whether EOS was likelier than a byte that was chosen while a sentinel was pending.
    past_end: Annotated[Flags, 2]
    draw_keys: Annotated[npt.NDArray[np.uint64], 2]  # (p, b): for sampling
    # (2, p, b, 2): the last eight bytes read and their prefix hash, see ngram_hash.py, in two banks
    # for even and odd steps; read by n-gram tables.
    word: Annotated[npt.NDArray[np.uint64], 4]

    # Finished hypotheses of each slot, best first.
    n_finished: Annotated[Ints, 1]  # (p,): their number
    finished_score: Annotated[Reals, 2]  # (p, b): the score that ranks them
    finished_log_p: Annotated[Reals, 2]  # (p, b): their log-probability
    finished_step: Annotated[Ints, 2]  # (p, b): the step at which EOS was chosen
    finished_beam: Annotated[Ints, 2]  # (p, b): the beam that chose it
    finished_past_end: Annotated[Flags, 2]  # (p, b): see past_end

    # History.
    history_byte: Annotated[Bytes, 3]  # (p, t, b): the byte chosen at every step
    history_parent: Annotated[npt.NDArray[np.uint16], 3]  # (p, t, b): the beam that it continues

    # Rows of the current pass.
    # (r,): their slots; the beams of a sentence, or the bytes of a forced text, stand next to each
    # other; r is at least p * b.
    row_slot: Annotated[Ints, 1]
    n_rows: Annotated[Ints, 1]  # (1,): their number
    logits: Annotated[Floats, 3]  # (k, r, 256): of k models
    # (r, 256): natural log-probabilities of the next byte, averaged over the models, which the
    # search reads.
    log_p: Annotated[Floats, 2]

    work: Workspace
    forced: ForcedText  # texts to score instead of a search

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
        """Return n_slots free slots for outputs of `length` bytes and prefixes of `prefix` bytes.

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
            work=Workspace.allocate(beam, length),
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
        """Put a new sentence into a slot, in the state before its first byte.

        The arrays must have room. draw_keys: keys of the random numbers of each beam, in sampling;
        None in a search.
        """
        prefix = request.prefix
        sentinels = sentinel_numbers(request.source or b"")
        self.state[slot] = RUNNING
        self.step[slot] = 0
        self.limit[slot] = max(request.limit, len(prefix) + len(sentinels))
        self.prefix[slot, : len(prefix)] = np.frombuffer(prefix, np.uint8)
        self.n_prefix[slot] = len(prefix)
        self.pending[slot] = sum(1 << number for number in sentinels)
        self.before[slot] = 0
        for first, second in request.pairs:
            self.before[slot, second] |= 1 << first
        self.last[slot] = BOS
        self.utf8[slot] = ACCEPT
        self.bonus[slot] = 0.0
        self.past_end[slot] = False
        if draw_keys is None:  # all beams begin alike, so one of them is enough
            self.parent[slot] = 0
            self.score[slot] = -np.inf
            self.score[slot, 0] = 0.0
            self.draw_keys[slot] = 0
        else:  # independent samples
            self.parent[slot] = np.arange(self.parent.shape[1])
            self.score[slot] = 0.0
            self.draw_keys[slot] = draw_keys
        self.word[:, slot] = START, 0
        self.n_finished[slot] = 0
        self.finished_score[slot] = self.finished_log_p[slot] = -np.inf

    def text(self, slot: int, step: int, beam: int) -> bytes:
        """Return the first `step` bytes of a hypothesis. beam: its beam at that step."""
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
    leaves = []
    for part in tree:
        if isinstance(part, tuple):
            leaves += flatten_arrays(part)
        else:
            leaves.append(part)
    return leaves
