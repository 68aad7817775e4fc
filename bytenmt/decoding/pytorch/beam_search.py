"""Which bytes go on: one step of the search, greedy, beam or sampling, in plain PyTorch on any device.

What comes out is valid UTF-8 by construction: at every step a byte is allowed if the character that it begins
or goes on with can still be finished under the length limit, and EOS only between characters. The mask comes
after the log-softmax, so that a hypothesis' score stays the models' own log-probability. Where bytes are
drafted, one pass makes the choices of several steps and keeps those that the steps alone would have made. All
shapes are constant and nothing waits for the device: a CUDA graph can hold a step. Knows no models.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bytenmt.architectures.tensor_tree import map_tensors
from bytenmt.decoding.constraints.constraint import Constraint, Size
from bytenmt.decoding.interface import CLOSING_COST, Options, Request
from bytenmt.decoding.pytorch.beams import Beams, Chosen, Finished, History
from bytenmt.decoding.pytorch.candidates import beam_search, sharing
from bytenmt.decoding.pytorch.constrained_choice import chances, firm, kept, ranks
from bytenmt.decoding.pytorch.constraints import Bytes, Owing, Rulebook, View, along
from bytenmt.decoding.pytorch.ngram_blocking import Guard, banned
from bytenmt.decoding.pytorch.sampling import draw
from bytenmt.splitmix import draw_key, signed
from bytenmt.utf8 import ACCEPT, BOS, EOS, LONGEST_CHARACTER, N_IDS, UTF8_NEXT, allowed_bytes


class Search:
    """The search of one set of options on one device."""

    def __init__(self, options: Options, device: torch.device) -> None:
        self.options = options
        self.device = device
        may = torch.from_numpy(allowed_bytes(options.endless))
        other = ~torch.eye(N_IDS + 1, dtype=torch.bool)[:, 1:]
        # forbidden (257, 5, N_STATES, 256) bool: by what is forced, the bytes of room, the automaton's state.
        forbidden = other[:, None, None].repeat(1, *may.shape[:2], 1)
        forbidden[0] = ~may  # nothing is forced; what is comes whatever it is: a prefix may hold controls
        self._forbidden = forbidden.to(device)
        self._follow = torch.from_numpy(UTF8_NEXT).to(device).long()
        self._rulebook = Rulebook(options.tracker, may, device) if options.tracker is not None else None

    def begin(self, requests: Sequence[Request], history: int = 0) -> Beams:
        """Sentences before their first byte; room for a history of at least so many steps."""
        n, b = len(requests), self.options.beam
        history = max([history, *(request.limit + 1 for request in requests)])
        forced = torch.zeros(n, history, dtype=torch.int16)
        for row, request in zip(forced, requests, strict=True):
            row[: len(request.prefix)] = torch.tensor(list(request.prefix), dtype=torch.int16) + 1
        seed, texts = self.options.seed, range(b)
        keys = [[signed(draw_key(seed, request.number, text)) for text in texts] for request in requests]
        score = torch.zeros(n, b, dtype=torch.float64)
        nothing = torch.full_like(score, -torch.inf)
        zero = torch.zeros(n, b, dtype=torch.int64)
        if not self.options.sample:
            score[:, 1:] = -torch.inf  # all beams begin alike: one of them is enough
        beams = Beams(
            step=zero[:, 0],
            limit=torch.tensor([request.limit for request in requests], dtype=torch.int64),
            done=torch.zeros(n, dtype=torch.bool),
            forced=forced,
            key=torch.tensor(keys, dtype=torch.int64).view(n, b),
            last=torch.full((n, b), BOS, dtype=torch.uint8),
            parent=torch.arange(b).repeat(n, 1),
            automaton=torch.full((n, b), ACCEPT, dtype=torch.int64),
            score=score,
            finished=Finished(nothing, nothing, zero - 1, zero),
            history=History(
                torch.zeros(n, history, b, dtype=torch.uint8),
                torch.zeros(n, history, b, dtype=torch.int32),
                torch.zeros(n, history if self.options.byte_scores else 0, b, dtype=torch.float64),
            ),
            guard=Guard.begin(n, history if self.options.no_repeat_ngram_size else 0, b),
            passes=zero[:, 0],
            owing=self._begin_owing([request.constraint for request in requests]),
        )
        return map_tensors(lambda part: part.to(self.device), beams)

    def _begin_owing(self, constraints: Sequence[Constraint]) -> Owing | tuple[()]:
        tracker = self.options.tracker
        if tracker is None:
            return ()
        return Owing.of(constraints, self.options.beam, Size.of(constraints, tracker))

    def step(self, log_p: Tensor, beams: Beams) -> Beams:
        """log_p (n, b, 256): the models' log-probabilities of the next byte. The history is written in place,
        the rest of the answer is fresh."""
        owes, options, plain = self._owes(beams), self.options, log_p
        log_p = allowed(log_p, self._mask(beams, owes))
        if options.beam > 1 and not options.sample:
            if owes is None or self._rulebook is None or not isinstance(beams.owing, Owing):
                return self._go_on(beams, beam_search(log_p, beams, options))
            ranked = beams.score[:, :, None] + kept(beams.owing, owes[1]) + ranks(plain, log_p, *owes)
            chosen, credit = sharing(log_p, ranked, self._rulebook.left(*owes), beams, options)
            at = chosen.parent[:, :, None].expand(-1, -1, N_IDS)
            mine = owes[1]._replace(instead=owes[1].instead.gather(1, chosen.parent))
            firmly = firm(plain.gather(1, at), log_p.gather(1, at), mine, chosen.byte, False, CLOSING_COST)
            return self._go_on(beams, chosen, firmly, credit)
        values = log_p if owes is None else chances(plain, log_p, owes[1], options.sample)
        byte = self._byte(values, beams.key, beams.step)
        score = beams.score + log_p.gather(2, byte[:, :, None])[:, :, 0]
        held = None if owes is None else firm(plain, log_p, owes[1], byte, options.sample)
        return self._go_on(beams, each_row(byte, score, beams, options), held)

    def verify(self, log_p: Tensor, draft: Tensor, beams: Beams) -> tuple[Beams, Tensor]:
        """The choices of m + 1 steps of one beam at once; draft (n, m) int64: bytes to verify.

        log_p (n, m + 1, 256): what follows the last byte, and each drafted one if all before it are right.
        A text takes the choices that accept the draft and the first that does not, or the last; EOS ends it.
        Returns the beams after, and how many of the m + 1 columns (n,) int64 have been read in vain.
        """
        n, m = draft.shape
        column = torch.arange(m + 1, device=draft.device)
        automaton = [beams.automaton]
        for j in range(m):
            automaton.append(self._follow[automaton[-1], draft[:, j : j + 1]])
        states = torch.cat(automaton, dim=1)
        at = _at(beams, column)
        # A draw depends on the sum of key and step: the column may be added to either.
        key = beams.key + column
        if self._rulebook is None:
            room = ((beams.limit - beams.step)[:, None] - column).clamp(0, LONGEST_CHARACTER)
            log_p = allowed(log_p, self._forbidden[beams.forced.gather(1, at).long(), room, states])
            byte = self._byte(log_p, key, beams.step)
        else:
            plain, (log_p, bytes_, owing) = log_p, self._along(log_p, beams, draft, automaton)
            byte = self._byte(chances(plain, log_p, bytes_, self.options.sample), key, beams.step)
            firmly = firm(plain, log_p, bytes_, byte, self.options.sample)
        right = (byte[:, :m] == draft) & (draft != EOS)
        n_right = right.long().cumprod(dim=1).sum(dim=1, keepdim=True)

        # What is not taken is written too: the next pass writes over it, and at the limit no text has a byte.
        costs = log_p.gather(2, byte[:, :, None])[:, :, 0].double()
        scores = torch.cat([beams.score, costs], dim=1).cumsum(dim=1)
        beams.history.put(at[:, :, None], byte[:, :, None], None, scores[:, 1:, None])
        score = scores.gather(1, n_right + 1)
        last, running = byte.gather(1, n_right), ~beams.done
        at_last = beams._replace(step=beams.step + n_right[:, 0])
        chosen = each_row(last, score, at_last, self.options)
        step = torch.where(running, at_last.step + 1, beams.step)
        after = beams._replace(
            step=step,
            done=beams.done | chosen.done | (step > beams.limit),
            last=last.to(torch.uint8),
            automaton=self._follow[states.gather(1, n_right), last],
            score=score,
            finished=chosen.finished,
            passes=beams.passes + running,
        )
        if self._rulebook is not None:
            at_last = at_last._replace(owing=along(owing, n_right), automaton=states.gather(1, n_right))
            after = after._replace(owing=self._owing(at_last, last, None, firmly.gather(1, n_right)))
        return after, m - n_right[:, 0]

    def _along(
        self, log_p: Tensor, beams: Beams, draft: Tensor, automaton: Sequence[Tensor]
    ) -> tuple[Tensor, Bytes, list[Owing]]:
        """At each of the m + 1 columns of a draft: log_p (n, m + 1, 256) where it is allowed, what may come,
        and what is owed. automaton: of each column."""
        masked, bytes_, owing = [], [], []
        for j, state in enumerate(automaton):
            at = beams._replace(step=beams.step + j, automaton=state)
            owes = self._owes(at)
            assert owes is not None and isinstance(at.owing, Owing)
            owing.append(at.owing)
            bytes_.append(owes[1])
            plain = log_p[:, j : j + 1]
            masked.append(allowed(plain, self._mask(at, owes)))
            if j < draft.shape[1]:
                byte = draft[:, j : j + 1]
                firmly = firm(plain, masked[j], owes[1], byte, self.options.sample)
                beams = beams._replace(owing=self._owing(at, byte, owes[0], firmly))
        return (
            torch.cat(masked, dim=1),
            Bytes(*(torch.cat(p, dim=1) for p in zip(*bytes_, strict=True))),
            owing,
        )

    def _byte(self, log_p: Tensor, key: Tensor, step: Tensor) -> Tensor:
        """The byte that each text takes, drawn or the likeliest: log_p (n, b, 256), key (n, b), step (n,)
        -> (n, b) int64."""
        if self.options.sample:
            return draw(log_p, key, step, self.options)
        return log_p.max(dim=2).indices

    def _mask(self, beams: Beams, owes: tuple[View, Bytes] | None = None) -> Tensor:
        """The bytes that may not follow: (n, b, 256) bool."""
        room = (beams.limit - beams.step).clamp(0, LONGEST_CHARACTER)[:, None]
        forced = beams.forced.gather(1, _at(beams)).long()
        forbidden = self._forbidden[forced, room, beams.automaton]
        if owes is not None:
            # Where constraints leave nothing, valid text comes.
            free = (forced == 0)[:, :, None] & owes[1].allowed.any(dim=2, keepdim=True)
            forbidden = torch.where(free, ~owes[1].allowed, forbidden)
        if self.options.no_repeat_ngram_size:
            strict = forbidden | self._repeats(beams)
            if owes is not None:  # what is owed comes, however often
                strict = torch.where(owes[1].favoured, forbidden, strict)
            # A byte that is forced, or the only one that ends a character, comes all the same.
            forbidden = torch.where(strict.all(dim=2, keepdim=True), forbidden, strict)
        return forbidden

    def _owes(self, beams: Beams) -> tuple[View, Bytes] | None:
        """What the beams owe, and which bytes that lets them take."""
        if self._rulebook is None or not isinstance(beams.owing, Owing):
            return None
        view = self._rulebook.view(beams.owing)
        return view, self._rulebook.bytes(beams.owing, view, beams.automaton, beams.limit - beams.step)

    def _owing(self, beams: Beams, byte: Tensor, view: View | None, firm: Tensor | None) -> Owing | tuple[()]:
        """What is owed behind a byte (n, b) int64 of each of the beams; view: of them, where it is there;
        firm: see Rulebook.take."""
        if self._rulebook is None or not isinstance(beams.owing, Owing) or firm is None:
            return ()
        held = beams.forced.gather(1, _at(beams)) > 0
        view = view or self._rulebook.view(beams.owing)
        return self._rulebook.take(beams.owing, view, beams.automaton, byte, held, firm)

    def _repeats(self, beams: Beams) -> Tensor:
        """The bytes that complete n characters which the text already has in a row: (n, b, 256) bool."""
        completes = self._follow[beams.automaton] == ACCEPT
        completes[:, :, EOS].fill_(False)
        within = beams.automaton != ACCEPT
        return banned(beams.guard, beams.step, within, self.options.no_repeat_ngram_size) & completes

    def _go_on(
        self, beams: Beams, chosen: Chosen, firm: Tensor | None = None, credit: Tensor | None = None
    ) -> Beams:
        """The sentences after a step; what is done stays as it is. firm, credit: see Owing."""
        # A done sentence writes where nobody reads: its last step is the one past its bytes.
        at = _at(beams)[:, :, None].expand(-1, 1, self.options.beam)
        byte = chosen.byte.to(torch.uint8)
        beams.history.put(at, byte[:, None], chosen.parent[:, None], chosen.score[:, None])
        automaton = beams.automaton.gather(1, chosen.parent)
        guard = beams.guard
        if self.options.no_repeat_ngram_size:
            guard = guard.go_on(byte, chosen.parent, at)
        step = beams.step + ~beams.done
        before = beams._replace(automaton=automaton)
        if isinstance(beams.owing, Owing):
            owing = beams.owing.beams(chosen.parent)
            before = before._replace(owing=owing if credit is None else owing._replace(credit=credit))
        return beams._replace(
            step=step,
            done=beams.done | chosen.done | (step > beams.limit),
            last=byte,
            parent=chosen.parent,
            automaton=self._follow[automaton, chosen.byte],
            score=chosen.score,
            finished=chosen.finished,
            guard=guard,
            owing=self._owing(before, chosen.byte, None, firm),
        )


def allowed(log_p: Tensor, forbidden: Tensor) -> Tensor:
    """log_p (n, b, 256) with -inf where forbidden (n, b, 256) bool, and where it is no number."""
    log_p = log_p.masked_fill(forbidden, -torch.inf)
    return log_p.nan_to_num(nan=-torch.inf, neginf=-torch.inf)


def each_row(byte: Tensor, score: Tensor, beams: Beams, options: Options) -> Chosen:
    """Every row is a text of its own, that takes this byte: byte (n, b) int64, score (n, b) with it."""
    running = (beams.finished.step < 0) & ~beams.done[:, None]
    ends = (byte == EOS) & running
    ended = Finished.ended(score, beams.step, beams.parent, options)
    finished = Finished(*(torch.where(ends, *pair) for pair in zip(ended, beams.finished, strict=True)))
    done = (finished.step >= 0).all(dim=1)
    return Chosen(byte, beams.parent, score, finished, done)


def _at(beams: Beams, ahead: Tensor | None = None) -> Tensor:
    """Each sentence's column of the history and of what is forced: (n, 1) int64; ahead (k,) int64: the
    columns so many steps further on, (n, k)."""
    step = beams.step[:, None] if ahead is None else beams.step[:, None] + ahead
    return step.clamp(max=beams.forced.shape[1] - 1)
