"""Hold the search state of a batch, as NumPy arrays that compiled code and Python share.

A slot holds one sentence of the batch; it is free again when the sentence is done. A beam is one of
the hypotheses of a sentence. A row is a byte that a decoder reads in one pass: the last byte of a
beam, or a byte of a given text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.search.record_fields import allocate_arrays
from bytenmt.kernel_constants import FIRST_SENTINEL, N_SENTINELS
from bytenmt.ngram_hash import START
from bytenmt.utf8 import ACCEPT, BOS, UTF8_NEXT, allowed_bytes

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
    """The options of a search and tables of UTF-8, as a record (NamedTuple) for compiled code."""

    beam: int  # beams of a sentence; in sampling, samples
    n_best: int  # finished hypotheses that are wanted
    length_penalty: float  # a score is log-probability / (bytes + 1) ** length_penalty
    sample: bool  # whether bytes are drawn at random
    temperature: float  # of sampling
    top_k: int  # sample from the k likeliest bytes; 0: from all
    top_p: float  # sample from the fewest bytes whose probabilities sum to it
    ngram: int  # characters of the n-grams that may not be repeated; 0: no blocking
    # Whether a byte may come: [bytes left (4: or more), state of the UTF-8 automaton, byte].
    utf8_allowed: Annotated[Flags, "5 10 256"]
    utf8_next: Annotated[Bytes, "10 256"]  # the automaton's state after a byte: [state, byte]

    @staticmethod
    def from_options(options: SearchOptions) -> SearchParams:
        """Return the record of these options; with options.endless line ends are allowed, and EOS
        only at the length limit."""
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
    """Fixed texts that are scored instead of searched for, one in each slot, and their scores.

    A slot is a place in the batch. The record of a search has 0 slots.
    """

    text: Annotated[Bytes, "slots length"]  # the bytes of each text
    n_text: Annotated[Ints, "slots"]  # bytes of each text
    n_read: Annotated[Ints, "slots"]  # bytes of it that have been scored
    max_columns: Annotated[Ints, "1"]  # bytes of a text that one pass reads at most
    log_p: Annotated[Reals, "slots length"]  # result: natural log-probability of each byte
    rank: Annotated[Ints, "slots length"]  # result: how many of the 256 bytes were likelier
    # Result: the weights of each attention instruction (layer) over source columns; without layers
    # they are not recorded.
    attention: Annotated[Floats, "slots length layers columns"]

    @staticmethod
    def allocate(n_slots: int, length: int, n_layers: int = 0, columns: int = 0) -> ForcedText:
        """Return arrays of zeros for n_slots texts of at most `length` bytes.

        n_layers, columns: attention layers and source columns whose weights are recorded; 0: none.
        """
        sizes = {"slots": n_slots, "length": length, "layers": n_layers, "columns": columns}
        return ForcedText(**allocate_arrays(ForcedText, sizes))

    def fill_slot(self, slot: int, text: bytes) -> None:
        """Replace the text in a slot by `text`, or by the next part of a longer one, none of it
        scored so far. Its scores will be stored from index 0 on. EOS is scored only where `text`
        ends with it. The decoder's state is kept."""
        self.text[slot, : len(text)] = np.frombuffer(text, np.uint8)
        self.n_text[slot] = len(text)
        self.n_read[slot] = 0


class Workspace(NamedTuple):
    """Temporary arrays of compiled code, overwritten for every row, beam or sentence."""

    # Of a row.
    exponentials: Annotated[Floats, "256"]  # exp of its logits, less their maximum

    # Of a beam.
    allowed: Annotated[Flags, "256"]  # its possible next bytes
    blocked: Annotated[Flags, "256"]  # those that would repeat an n-gram
    text: Annotated[Bytes, "steps"]  # its bytes so far
    values: Annotated[Floats, "256"]  # what its next bytes are ranked by
    order: Annotated[Ints, "256"]  # its possible next bytes, the likeliest first
    weights: Annotated[Reals, "256"]  # unnormalised probability of each next byte in sampling

    # The best candidates of a sentence, best first. There are twice as many as beams: at least half
    # of them do not end, since each beam has one EOS.
    ranking: Annotated[Reals, "candidates"]  # their scores
    number: Annotated[Ints, "candidates"]  # beam * 256 + byte

    # Copies of what the beams of a sentence have in SearchState.
    utf8: Annotated[Bytes, "beams"]
    score: Annotated[Reals, "beams"]
    bonus: Annotated[Reals, "beams"]
    pending: Annotated[Bytes, "beams"]
    past_end: Annotated[Flags, "beams"]

    @staticmethod
    def allocate(beam: int, length: int) -> Workspace:
        """Return arrays for sentences with `beam` beams and texts of at most `length` bytes."""
        sizes = {"steps": length + 1, "beams": beam, "candidates": 2 * beam}
        return Workspace(**allocate_arrays(Workspace, sizes))


class SearchState(NamedTuple):
    """The state of the search of a batch: sentences in slots, each with beams (open hypotheses)."""

    # Slots.
    state: Annotated[Ints, "slots"]  # FREE, RUNNING or DONE
    step: Annotated[Ints, "slots"]  # bytes chosen so far
    limit: Annotated[Ints, "slots"]  # bytes of the output at most
    n_prefix: Annotated[Ints, "slots"]  # forced bytes at the beginning
    prefix: Annotated[Bytes, "slots prefix"]  # these bytes
    # For each of the 8 sentinels (bytes 0xF5 to 0xFC, of which the output must get those of the
    # source) the bits of those that must have been written before it.
    before: Annotated[Bytes, "slots 8"]

    # Beams.
    last: Annotated[Bytes, "slots beams"]  # the byte to read next, BOS first
    parent: Annotated[Ints, "slots beams"]  # the beam of the previous step that each beam continues
    utf8: Annotated[Bytes, "slots beams"]  # state of the UTF-8 automaton
    score: Annotated[Reals, "slots beams"]  # log-probability so far, -inf for an unused beam
    # Added to the score to rank a beam that took a sentinel in place of EOS.
    bonus: Annotated[Reals, "slots beams"]
    pending: Annotated[Bytes, "slots beams"]  # the bits of the sentinels to be written
    # Whether EOS was likelier than a byte that was chosen while a sentinel was pending.
    past_end: Annotated[Flags, "slots beams"]
    draw_keys: Annotated[npt.NDArray[np.uint64], "slots beams"]  # random keys of samples
    # The last eight bytes read, as an integer, and a hash of the word that they are in, in two
    # banks for even and odd steps; read by n-gram tables (ngram_hash.py).
    word: Annotated[npt.NDArray[np.uint64], "2 slots beams 2"]

    # Finished hypotheses of each slot, best first.
    n_finished: Annotated[Ints, "slots"]  # their number
    finished_score: Annotated[Reals, "slots beams"]  # the score that ranks them
    finished_log_p: Annotated[Reals, "slots beams"]  # their log-probability
    finished_step: Annotated[Ints, "slots beams"]  # the step at which EOS was chosen
    finished_beam: Annotated[Ints, "slots beams"]  # the beam that chose it
    finished_past_end: Annotated[Flags, "slots beams"]  # see past_end

    # History.
    history_byte: Annotated[Bytes, "slots steps beams"]  # the byte chosen at every step
    # The beam that it continues.
    history_parent: Annotated[npt.NDArray[np.uint16], "slots steps beams"]

    # Rows of the current pass.
    # Their slots; the beams of a sentence, or the bytes of a forced text, stand next to each other.
    row_slot: Annotated[Ints, "rows"]
    n_rows: Annotated[Ints, "1"]  # their number
    logits: Annotated[Floats, "models rows 256"]
    # Natural log-probabilities of the next byte, averaged over the models, which the search reads.
    log_p: Annotated[Floats, "rows 256"]

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
        """Return a state of n_slots free slots, for outputs of at most `length` bytes.

        beam: beams of a sentence. n_models: number of models whose logits are stored; 0 if an
        engine writes log_p itself. prefix: the most bytes that an output is forced to begin with.
        n_rows: the most bytes that a decoder reads in one pass, if more than slots times beams.
        forced: texts to score; None: a search.
        """
        sizes = {
            "slots": n_slots,
            "beams": beam,
            "models": n_models,
            "steps": length + 1,
            "prefix": max(1, prefix),
            "rows": max(n_rows, n_slots * beam),
        }
        return SearchState(
            **allocate_arrays(SearchState, sizes),
            work=Workspace.allocate(beam, length),
            forced=forced or ForcedText.allocate(0, 0),
        )

    def enlarged(self, length: int, prefix: int) -> SearchState:
        """Return a copy with room for outputs of `length` bytes and prefixes of `prefix` bytes.

        Neither may be smaller than now. Texts to score (`forced`) are not copied.
        """
        n_slots, beam = self.last.shape
        new = SearchState.allocate(n_slots, beam, len(self.logits), length, prefix)
        pairs: Any = zip(self, new, strict=True)
        for old, copy in pairs:
            if isinstance(old, np.ndarray):
                copy[tuple(map(slice, old.shape))] = old
        return new

    def fill_slot(self, slot: int, request: Request, draw_keys: list[int] | None) -> None:
        """Replace the sentence in a slot by a new one, of whose output no byte is chosen yet.

        The arrays must have room for its output and prefix; `enlarged` makes it. draw_keys: in
        sampling, a random 64-bit key for the draws of each beam; None in a search.
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
        """Return the first `step` bytes of a hypothesis of the sentence in a slot.

        beam: the number of the beam that holds the hypothesis after these bytes.
        """
        if self.last.shape[1] == 1:
            return self.history_byte[slot, :step, 0].tobytes()
        text = bytearray(step)
        for position in range(step - 1, -1, -1):
            text[position] = self.history_byte[slot, position, beam]
            beam = int(self.history_parent[slot, position, beam])
        return bytes(text)


def sentinel_numbers(data: bytes) -> list[int]:
    """Return the numbers of the sentinels in a text, in their order: byte 0xF5 has the number 0.

    Sentinels are the bytes 0xF5 to 0xFC, which stand for spans to be copied.
    """
    return [
        byte - FIRST_SENTINEL
        for byte in data
        if FIRST_SENTINEL <= byte < FIRST_SENTINEL + N_SENTINELS
    ]
