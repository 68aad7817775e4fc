"""Sentences at their places: what the search knows of each, as arrays that compiled code shares with Python.

Knows no models and no rule by which a byte is chosen; beam_search.py does.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.search.owing import Owing, SpanTables
from bytenmt.kernel_constants import MOST_DRAFTED as CHAIN
from bytenmt.ngram_hash import START
from bytenmt.utf8 import ACCEPT, BOS, N_IDS, UTF8_NEXT, allowed_bytes

if TYPE_CHECKING:
    from bytenmt.decoding.constraints.constraint import Constraint, Size
    from bytenmt.decoding.interface import Options

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

FREE, RUNNING, DONE = 0, 1, 2  # a place's state


class Rules(NamedTuple):
    """interface.Options and the alphabet's tables, as compiled code takes them. allowed (5, 10, 256), see
    utf8.allowed_bytes; follow (10, 256); spans: of what is kept."""

    beam: int
    n_best: int
    length_penalty: float
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    ngram: int
    allowed: npt.NDArray[np.bool_]
    follow: Bytes
    spans: SpanTables

    @staticmethod
    def of(options: Options) -> Rules:
        return Rules(
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
            SpanTables.of(options.tracker),
        )


class Given(NamedTuple):
    """The texts at p places; p is 0 where there is a search.

    text (p, c) uint8, n_text, n_read (p,) int64: bytes, and how many of them are read; most (1,) int64: bytes
    of a text that a pass reads at most. word (p,) uint64: the last eight bytes read. log_p (p, c) float64,
    rank (p, c) int64: see reading.Reading. attention (p, c, l, s) float32: where l is not 0, the weights of
    each of l instructions that attend.
    """

    text: Bytes
    n_text: Ints
    n_read: Ints
    most: Ints
    word: npt.NDArray[np.uint64]
    log_p: Reals
    rank: Ints
    attention: npt.NDArray[np.float32]

    @staticmethod
    def make(n_places: int, length: int, n_layers: int = 0, columns: int = 0) -> Given:
        """Room for texts of so many bytes; for the weights of so many instructions over so many columns."""
        each = (n_places, length)
        return Given(
            np.zeros(each, np.uint8),
            np.zeros(n_places, np.int64),
            np.zeros(n_places, np.int64),
            np.ones(1, np.int64),
            np.full(n_places, START, np.uint64),
            np.zeros(each),
            np.zeros(each, np.int64),
            np.zeros((*each, n_layers, columns if n_layers else 0), np.float32),
        )

    def begin(self, place: int, text: bytes) -> None:
        """A text to read, or what comes next of it."""
        self.text[place, : len(text)] = np.frombuffer(text, np.uint8)
        self.n_text[place], self.n_read[place] = len(text), 0


class SearchState(NamedTuple):
    """What the search knows of the sentence at each of p places, b beams each.

    state (p,) int64: FREE, RUNNING or DONE; step, limit, n_prefix (p,) int64; prefix (p, _) uint8.
    last (p, b) uint8: the byte to read next; parent (p, b) int64: the beam that read what was before it;
    automaton (p, b) uint8; score (p, b) float64: log-probability so far; keys (p, b) uint64: of the draws.
    n_finished (p,) int64; ranked, log_p (p, b) float64, at, who (p, b) int64: finished hypotheses, best
    first: score, log-probability, step and beam of EOS.
    chosen (p, t, b) uint8, parents (p, t, b) uint16: what was chosen at every step, and whose child it is;
    totals (p, t, b) float64: the score then, t is 0 where bytes' own scores are not asked for.
    source (p, _) uint8, n_source (p,) int64: bytes to copy from; drafted (p, 8) uint8: what probably
    comes after `last`, of which n_drafted (p,) int64 bytes are read, and chance (p, 8) float64, that as many
    of them are accepted; passes (p,) int64 of the decoder. Only of b = 1.
    rows (r, 3) int64: place, beam and column of each row of the pass, 0 the one that reads `last`, then the
    drafted ones; r is p * b or more; n_rows (1,) int64.
    logits (k, r, 256) float32: a pass' outcome in each of k models, a row as in rows.
    owing: what the sentences owe. given: texts to read instead of a search.
    """

    state: Ints
    step: Ints
    limit: Ints
    n_prefix: Ints
    prefix: Bytes
    last: Bytes
    parent: Ints
    automaton: Bytes
    score: Reals
    keys: npt.NDArray[np.uint64]
    n_finished: Ints
    ranked: Reals
    log_p: Reals
    at: Ints
    who: Ints
    chosen: Bytes
    parents: npt.NDArray[np.uint16]
    totals: Reals
    source: Bytes
    n_source: Ints
    drafted: Bytes
    n_drafted: Ints
    chance: Reals
    passes: Ints
    rows: Ints
    n_rows: Ints
    logits: npt.NDArray[np.float32]
    owing: Owing
    given: Given

    @staticmethod
    def make(
        n_places: int,
        beam: int,
        n_models: int,
        length: int,
        prefix: int,
        source: int = 0,
        n_rows: int = 0,
        totals: bool = False,
        owing: Size | None = None,
        drafted: int = CHAIN,
        given: Given | None = None,
    ) -> SearchState:
        """Free places for outputs of at most `length` bytes, prefixes of at most `prefix` and sources of
        `source` bytes to copy from; n_rows: of a pass at most, if more than places times beams; totals:
        whether they are kept; owing: of constraints; drafted: bytes a pass of a sentence at most."""

        each = (n_places, beam)
        n_rows = max(n_rows, n_places * beam)
        steps = (n_places, length + 1, beam)
        return SearchState(
            state=np.zeros(n_places, np.int64),
            step=np.zeros(n_places, np.int64),
            limit=np.zeros(n_places, np.int64),
            n_prefix=np.zeros(n_places, np.int64),
            prefix=np.zeros((n_places, max(1, prefix)), np.uint8),
            last=np.full(each, BOS, np.uint8),
            parent=np.zeros(each, np.int64),
            automaton=np.zeros(each, np.uint8),
            score=np.zeros(each),
            keys=np.zeros(each, np.uint64),
            n_finished=np.zeros(n_places, np.int64),
            ranked=np.full(each, -np.inf),
            log_p=np.full(each, -np.inf),
            at=np.zeros(each, np.int64),
            who=np.zeros(each, np.int64),
            chosen=np.zeros(steps, np.uint8),
            parents=np.zeros(steps, np.uint16),
            totals=np.zeros(steps if totals else (n_places, 0, beam)),
            source=np.zeros((n_places, max(1, source)), np.uint8),
            n_source=np.zeros(n_places, np.int64),
            drafted=np.zeros((n_places, drafted), np.uint8),
            n_drafted=np.zeros(n_places, np.int64),
            chance=np.zeros((n_places, drafted)),
            passes=np.zeros(n_places, np.int64),
            rows=np.zeros((n_rows, 3), np.int64),
            n_rows=np.zeros(1, np.int64),
            logits=np.zeros((n_models, n_rows, N_IDS), np.float32),
            owing=Owing.make(n_places, beam, owing),
            given=given or Given.make(0, 0),
        )

    def grown(self, length: int, prefix: int, source: int, owing: Size) -> SearchState:
        """The same with room for longer outputs, prefixes, sources and constraints."""
        n_places, beam = self.last.shape
        rows, totals = len(self.rows), self.totals.shape[1] > 0
        new = SearchState.make(n_places, beam, len(self.logits), length, prefix, source, rows, totals, owing)
        for was, now in zip(arrays(self), arrays(new), strict=True):
            now[tuple(slice(n) for n in was.shape)] = was
        return new

    def begin(
        self,
        place: int,
        limit: int,
        prefix: bytes,
        keys: list[int],
        sample: bool,
        source: bytes = b"",
        constraint: Constraint | None = None,
    ) -> None:
        """Put a new sentence at a place; source: to copy from; constraint: where spans are
        followed."""
        self.state[place], self.step[place], self.limit[place] = RUNNING, 0, limit
        self.prefix[place, : len(prefix)] = np.frombuffer(prefix, np.uint8)
        self.n_prefix[place] = len(prefix)
        self.last[place], self.automaton[place] = BOS, ACCEPT
        self.parent[place] = np.arange(self.parent.shape[1]) if sample else 0
        self.score[place] = 0.0 if sample else -np.inf
        self.score[place, 0] = 0.0
        self.keys[place] = keys
        self.n_finished[place] = 0
        self.source[place, : len(source)] = np.frombuffer(source, np.uint8)
        self.n_source[place] = len(source)
        self.n_drafted[place] = self.passes[place] = 0
        self.ranked[place] = self.log_p[place] = -np.inf
        if constraint is not None:
            self.owing.begin(place, constraint)

    def text(self, place: int, step: int, beam: int) -> bytes:
        """The bytes chosen before a step on the way to a beam."""
        if self.last.shape[1] == 1:
            return self.chosen[place, :step, 0].tobytes()
        made = bytearray(step)
        for at in range(step - 1, -1, -1):
            made[at] = self.chosen[place, at, beam]
            beam = int(self.parents[place, at, beam])
        return bytes(made)

    def byte_scores(self, place: int, step: int, beam: int, total: float) -> tuple[float, ...]:
        """The log-probability of each byte before a step on the way to a beam, and of EOS; total: of the text
        with it. Empty where totals are not kept."""
        if not self.totals.shape[1]:
            return ()
        totals = [total]
        for at in range(step - 1, -1, -1):
            totals.append(float(self.totals[place, at, beam]))
            beam = int(self.parents[place, at, beam])
        return tuple(after - before for before, after in pairwise([0.0, *reversed(totals)]))


def arrays(tree: tuple[Any, ...]) -> list[Any]:
    """The arrays of a record and of those in it, in order."""
    return [one for part in tree for one in (arrays(part) if isinstance(part, tuple) else [part])]
