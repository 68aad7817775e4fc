"""The draft table: it says what was counted, by an independent count; its file is whole or refused."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
import reference_drafts
from msgspec.structs import replace
from reference_drafts import draft_from_table
from reference_hash import append_byte, hash_ngram, word_of

from bytenmt.checkpoints.tensor_file import entry, read_arrays, serialise
from bytenmt.config.facts import Facts, TextFact
from bytenmt.config.schema import Config, load_config
from bytenmt.decoding.drafts import counting
from bytenmt.decoding.drafts.counting import accepted_shares, count_drafts, split_stream
from bytenmt.decoding.drafts.table import (
    CHAIN,
    FILE,
    ORDERS,
    DraftTable,
    Speculation,
    empty_table,
    read_table,
    run_identity,
    write_table,
)
from bytenmt.errors import CheckpointError
from bytenmt.utf8 import BOS, EOS

WIDE, NARROW = 1 << 14, 1 << 6  # slots: no two contexts share one, and nearly all do
DISCOUNT, PRICE = Fraction(counting.DISCOUNT, 100), Fraction(counting.PRICE, 100)
WORDS = [b"der", b"Mann", b"die", b"Frau", b"sitzt", b"steht", "läuft".encode(), b"auf", b"Stuhl", b"1961"]


def sentences(n: int, seed: int) -> list[bytes]:
    draw = Random(seed)
    return [b" ".join(draw.choices(WORDS, k=draw.randrange(1, 6))) for _ in range(n)]


def translated(lines: list[bytes], seed: int) -> list[bytes]:
    """Return a translation of the same words in another order, so that there is something to copy."""
    draw = Random(seed)
    return [b" ".join(draw.sample(line.split(), len(line.split()))) for line in lines]


class Known(NamedTuple):
    """Counts of a context. counts: its positions, and those that continue like the chain; worth: see
    counting_kernels.compete.
    """

    chain: bytes
    counts: list[int]
    worth: Fraction

    def drafted(self) -> tuple[bytes, tuple[int, ...]]:
        reach = [int(255 * max(0, count - DISCOUNT) / self.counts[0]) for count in self.counts[1:]]
        n = sum(value > 0 for value in reach)
        return self.chain[:n], tuple(reach[:n])


def positions(lines: list[bytes], ended: bool = True) -> list[tuple[bytes, bytes]]:
    """The 8 bytes before each, and the bytes from it on, 8 at most."""
    found = []
    for line in lines:
        whole = bytes([BOS]) * 8 + line + (bytes([EOS]) if ended else b"")
        last = len(whole) if ended else len(whole) - CHAIN + 1
        found += [(whole[i - 8 : i], whole[i : i + CHAIN]) for i in range(8, last)]
    return found


def naive(lines: list[bytes], ended: bool = True) -> dict[bytes, Known]:
    """Every context that is worth a slot, by counting in dictionaries."""
    where = positions(lines, ended)
    before: dict[int, tuple[bytes, int]] = {}  # at each position the shorter context's chain
    known = {}
    for order in sorted(ORDERS):
        members = defaultdict(list)
        for number, (context, _) in enumerate(where):
            members[context[-order:]].append(number)
        for context, numbers in members.items():
            if len(numbers) < 2:
                continue
            chain, counts = b"", [len(numbers)]
            while len(chain) < CHAIN and chain[-1:] != bytes([EOS]):
                going_on = [where[i][1] for i in numbers if where[i][1].startswith(chain)]
                following = Counter(text[len(chain)] for text in going_on)
                byte = min(following, key=lambda b: (-following[b], b))
                chain += bytes([byte])
                counts.append(following[byte])
            n, worth = 0, Fraction(0)
            while n < len(chain) and counts[n + 1] - DISCOUNT > PRICE * counts[0]:
                n += 1
                worth += counts[n] - DISCOUNT - PRICE * counts[0]
            for i in numbers:
                drafted, n_drafted = before.get(i, (b"", 0))
                right = 0
                while right < n_drafted and where[i][1][right : right + 1] == drafted[right : right + 1]:
                    right += 1
                worth -= right - PRICE * n_drafted
            if worth > 0:
                known[context] = Known(chain, counts, worth)
                before |= dict.fromkeys(numbers, (chain, n))
    return known


def expected(known: dict[bytes, Known], context: bytes) -> tuple[bytes, tuple[int, ...]]:
    for order in ORDERS:
        if context[-order:] in known:
            return known[context[-order:]].drafted()
    return b"", ()


def plain(table: DraftTable, context: bytes) -> tuple[bytes, tuple[int, ...]]:
    found = draft_from_table(table, word_of(context))
    return found.text, found.reach


def slot_of(context: bytes, slots: int) -> int:
    return hash_ngram(int.from_bytes(context, "big"), len(context)) >> (64 - slots.bit_length() + 1)


# What the table says.


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "ended"), [(1, True), (2, False)])
def test_it_says_what_dictionaries_count(seed: int, ended: bool) -> None:
    """Behind every text: the chain of the longest context that says more than the shorter ones do, with its
    discounted share; nothing behind what was never seen."""
    lines = sentences(60, seed)
    known = naive(lines, ended)
    assert {len(context) for context in known} == set(ORDERS)
    slots = [slot_of(context, WIDE) for context in known]
    assert len(set(slots)) == len(slots), "two contexts share a slot: choose another seed"
    table = count_drafts(lines, ended=ended, slots=WIDE)
    assert np.flatnonzero(table.tag).tolist() == sorted(slots)
    for context, _ in positions(lines + sentences(10, seed + 50), ended):
        assert plain(table, context) == expected(known, context), context
    assert plain(table, b"\x01\x02\x03\x04\x05\x06\x07\x08") == (b"", ())


def test_a_slot_goes_to_who_is_worth_most() -> None:
    """Few slots: each holds the most valuable of the contexts that hash to it, and nothing that was not
    counted."""
    lines = sentences(60, 3)
    known = naive(lines)
    table = count_drafts(lines, slots=NARROW)
    owners: dict[int, bytes] = {}
    for context, one in known.items():
        slot = slot_of(context, NARROW)
        owned = hash_ngram(int.from_bytes(context, "big"), len(context)) & 0xFFFFFFFF | 1 == table.tag[slot]
        best = known[owners[slot]].worth if slot in owners else Fraction(0)
        if one.worth > best or (one.worth == best and owned):
            owners[slot] = context
    assert len(owners) < len(known) // 2 and set(np.flatnonzero(table.tag).tolist()) == set(owners)
    kept = {context: known[context] for context in owners.values()}
    for context, _ in positions(lines):
        assert plain(table, context) == expected(kept, context), context


def test_chances_do_not_grow_and_the_end_ends() -> None:
    """Along a chain; EOS has nothing behind it, and behind what is drafted stand zeros."""
    table = count_drafts(sentences(400, 4))
    owned = table.tag > 0
    reach = table.reach[owned].astype(int)
    assert (np.diff(reach, axis=1) <= 0).all() and (reach[:, 0] > 0).all() and (reach < 255).all()
    assert not table.chain[~owned].any() and not table.reach[~owned].any()
    chains = table.chain[owned].astype("<u8").view(np.uint8).reshape(-1, 8)
    assert not chains[reach == 0].any()
    ends = chains == EOS
    assert ends.any() and not (np.cumsum(ends, axis=1)[reach > 0] > 1).any()
    assert not reach[:, 1:][ends[:, :-1]].any()


def test_it_knows_how_texts_begin() -> None:
    """The 8 bytes before a text are BOS; a word is the last 8 bytes."""
    table = count_drafts([b"Ein Mann geht.", b"Ein Hund rennt.", b"Zwei Frauen."] * 5)
    assert draft_from_table(table, word_of(b"")).text[:4] == b"Ein "
    assert draft_from_table(table, word_of(b"Zw")).text == b"ei Fraue"
    word = word_of(b"")
    for n, byte in enumerate(b"eine Frau", 1):
        word = append_byte(word, byte)
        assert word == word_of(b"eine Frau"[:n])
    assert word_of(b"Z").to_bytes(8, "big") == bytes([BOS] * 7) + b"Z"


def test_a_stream_has_no_end() -> None:
    """Nothing is drafted that a piece of it does not hold; its last bytes, whose following is cut off, do not
    count."""
    stream = np.frombuffer(b"abcdefghij" * 1000, np.uint8)
    cut = split_stream(stream, 512)
    assert b"".join(cut) == stream.tobytes() and {len(piece) for piece in cut[:-1]} == {512}
    table = count_drafts(cut, ended=False)
    assert draft_from_table(table, word_of(b"fghijabc")).text == b"defghija"
    chains = table.chain[table.tag > 0].astype("<u8").view(np.uint8)
    assert not (chains == EOS).any()
    assert not count_drafts([b"abcdefg"] * 50, ended=False).tag.any(), "too short to know what follows"


def test_much_text_is_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evenly from all of it, whole texts, about as much as the limit."""
    monkeypatch.setattr(counting, "MOST_BYTES", 5000)
    lines = [b"%04d" % number + b"x" * (number % 7) for number in range(3000)]
    chosen = counting._evenly(lines, 5000)
    assert 4500 < sum(len(lines[i]) for i in chosen) < 5500
    assert max(np.diff([0, *chosen, 3000])) < 6
    assert counting._evenly(lines[:100], 5000) == list(range(100))
    stream = np.arange(1 << 14, dtype=np.uint32).view(np.uint8)
    parts = split_stream(stream, 512)
    assert sum(map(len, parts)) <= 5000 and len(parts) == 9
    starts = [int.from_bytes(part[:4], sys.byteorder) * 4 for part in parts]
    assert all(start % 512 == 0 for start in starts) and starts[0] == 0
    assert (np.abs(np.diff(starts) - 8192) < 1024).all() and starts[-1] == (1 << 16) - 512


def test_nothing_to_count() -> None:
    """No text, or one that is always different, makes a table that drafts nothing."""
    for lines in ([], [b""], [b"abc"]):
        table = count_drafts(lines, [line.upper() for line in lines])
        assert not table.tag.any() and not table.copy.any() and not table.accepted.any()
        with pytest.raises(ValueError, match="sources"):
            count_drafts([*lines, b"abc"], lines)
        assert reference_drafts.draft(table, word_of(b"abc"), b"abcabc") == (b"", ())


# Copies and what drafts are worth.


def naive_match(text: bytes, source: bytes) -> tuple[int, int]:
    """The length of the longest match of a text's end in the source, 8 at most, and where that goes on."""
    for length in range(min(8, len(text)), 0, -1):
        at = source[:-1].rfind(text[-length:])
        if at >= 0:
            return length, at + length
    return 0, 0


def test_copies_are_as_sure_as_they_were() -> None:
    """For every length of the match the share of positions at which the text goes on like the source."""
    lines = sentences(80, 5)
    sources = translated(lines, 6)
    counts = np.zeros((9, 9), int)
    for line, source in zip(lines, sources, strict=True):
        for at in range(len(line) + 1):
            length, behind = naive_match(line[:at], source)
            counts[length, 0] += 1
            same = 0
            while source[behind + same : behind + same + 1] == line[at + same : at + same + 1] != b"":
                same += 1
            counts[length, 1 : 1 + min(same, CHAIN)] += 1
    table = count_drafts(lines, sources)
    wanted = np.floor(255 * counts[1:, 1:] / (counts[1:, :1] + 1))
    assert (table.copy[1:] == wanted).all() and wanted.any(axis=1).sum() == 8
    assert not table.copy[0].any() and not count_drafts(lines).copy.any()


def test_what_is_copied() -> None:
    """The text after the longest match is copied, that of the last of equal ones with a byte after it; the
    table's chain wins if it is as likely.
    """
    table = empty_table()
    table.copy[1:] = np.arange(8, 0, -1) * 10
    table.copy[1] = [9, 0, 0, 0, 0, 0, 0, 0]
    for text, source, drafted in [
        (b"in Nairobi", b"Nairobi, 1961", b", 1961"),
        (b"ab", b"abX abY", b"Y"),
        (b"ab", b"abX ab", b"X ab"),  # the last one has nothing behind it
        (b"xab", b"xabP zabQ", b"P zabQ"),  # longer is better than later
        (b"q", b"Q", b""),
        (b"q", b"", b""),
        (b"b", b"abc", b"c"),
        (b"0123456789", b"123456789A 23456789B", b"B"),  # more than 8 bytes count as 8
    ]:
        found = reference_drafts.draft(table, word_of(text), source)
        assert found.text == drafted and len(found.reach) == len(drafted), (text, source)
        length, behind = naive_match(text, source)
        assert source[behind : behind + len(drafted)] == drafted or not length
    assert reference_drafts.draft(table, word_of(b"ab"), None) == (b"", ())


def test_who_drafts_where_both_could() -> None:
    """The source where it is likelier in all, the table at a tie."""
    table = empty_table(4)
    context = hash_ngram(word_of(b"ab"), 2)
    slot = context >> 62
    table.tag[slot], table.chain[slot] = context & 0xFFFFFFFF | 1, int.from_bytes(b"cd", "little")
    table.reach[slot, :2] = 100, 50
    table.copy[2, :3] = 60, 50, 40
    assert reference_drafts.draft(table, word_of(b"ab"), b"abXYZ") == (b"cd", (100, 50))
    table.copy[2, 2] = 41
    assert reference_drafts.draft(table, word_of(b"ab"), b"abXYZ") == (b"XYZ", (60, 50, 41))
    assert reference_drafts.draft(table, word_of(b"ab"), b"abXY") == (b"cd", (100, 50)), (
        "there is less to copy"
    )
    assert reference_drafts.draft(table, word_of(b"ab")) == (b"cd", (100, 50))


def test_acceptance_is_measured_on_other_text() -> None:
    """The share of right drafts, of the table or copied, by the look-up in plain Python; of the training text
    what was kept back, which a table of the rest drafts."""
    lines = sentences(200, 7)
    sources = translated(lines, 8)
    table = count_drafts(lines, sources)

    def naive_accepted(table: DraftTable, lines: list[bytes], sources: list[bytes]) -> np.ndarray:
        hits, n = np.zeros(CHAIN), 0
        for line, source in zip(lines, sources, strict=True):
            whole = line + bytes([EOS])
            for at in range(len(whole)):
                drafted = reference_drafts.draft(table, word_of(line[:at]), source).text
                n += 1
                for j in range(len(drafted)):
                    hits[j] += whole[at : at + j + 1] == drafted[: j + 1]
        return hits / n

    other = sentences(30, 9)
    others = translated(other, 10)
    assert np.allclose(accepted_shares(table, other, others), naive_accepted(table, other, others))
    copied = table._replace(tag=np.zeros_like(table.tag))
    assert np.allclose(accepted_shares(copied, other, others), naive_accepted(copied, other, others))
    every = counting.HELD_OUT
    rest = [line for i, line in enumerate(lines) if i % every]
    partial = count_drafts(rest, slots=counting.SLOTS)._replace(copy=table.copy)
    assert np.allclose(table.accepted, naive_accepted(partial, lines[::every], sources[::every]))
    assert 0.3 < table.accepted[0] < 1 and (np.diff(table.accepted) <= 0).all()


# Its file.


def a_config(*settings: str) -> Config:
    return load_config("convs2s", "tiny", "", settings)


FACTS = Facts(pairs=3, source_bytes=5, target_bytes=7, update=1)


@pytest.fixture
def table() -> DraftTable:
    lines = sentences(50, 11)
    return count_drafts(lines, translated(lines, 12), slots=1 << 10)


def test_it_is_read_as_it_was_written(tmp_path: Path, table: DraftTable) -> None:
    """Bit for bit; by a run that went on under other limits too."""
    path = write_table(tmp_path, table, a_config(), FACTS)
    assert path == tmp_path / FILE and [path] == list(tmp_path.iterdir())
    first = path.read_bytes()
    assert read_arrays(path)[0].keys() == {"tag", "guess", "reach", "copy", "gain"}, "older files have these"
    limits = ["train.max_updates=7", "train.max_minutes=1", "train.max_cpu_minutes=1", "train.draft=true"]
    for config in (a_config(), a_config(*limits)):
        again = read_table(tmp_path, config, replace(FACTS, update=99))
        assert all(a.dtype == b.dtype and (a == b).all() for a, b in zip(table, again, strict=True))
    assert write_table(tmp_path, table, a_config(), FACTS).read_bytes() == first


def test_another_runs_table_is_refused(tmp_path: Path, table: DraftTable) -> None:
    """Another configuration, or the same on other text."""
    path = write_table(tmp_path, table, a_config(), FACTS)
    others = [
        (a_config("train.seed=2"), FACTS),
        (a_config("model.dropout=0.3"), FACTS),
        (a_config(), replace(FACTS, target_bytes=8)),
        (a_config(), replace(FACTS, texts=(TextFact("", 0, "0" * 64),))),
    ]
    assert len({run_identity(*other) for other in [(a_config(), FACTS), *others]}) == 5
    for config, facts in others:
        with pytest.raises(CheckpointError, match=rf"{path} is the draft table of another run: make it anew"):
            read_table(tmp_path, config, facts)


def test_damage_is_told_by_name(tmp_path: Path, table: DraftTable) -> None:
    """Cut off anywhere, a bit that flipped anywhere, no table at all, a future one."""
    path = write_table(tmp_path, table, a_config(), FACTS)
    whole = path.read_bytes()
    draw = Random(13)
    flipped = [draw.randrange(8 * len(whole)) for _ in range(60)]
    cases = [whole[:at] for at in (0, 5, 100, 2000, len(whole) - 1)] + [whole + b"\0"]
    for at in flipped:
        other = bytearray(whole)
        other[at // 8] ^= 1 << at % 8
        cases.append(bytes(other))
    for case in cases:
        path.write_bytes(case)
        with pytest.raises(CheckpointError, match=str(path)):
            read_table(tmp_path, a_config(), FACTS)
    path.unlink()
    with pytest.raises(CheckpointError, match="damaged or cut off"):
        read_table(tmp_path, a_config(), FACTS)


@pytest.mark.parametrize(
    ("excerpt", "arrays", "message"),
    [
        ({"format": "bytenmt draft 9"}, {}, "expected a draft table of this version"),
        ({"holds": "weights"}, {}, "holds 'weights'"),
        ({"format": None}, {}, "in the format None"),
        ({}, {"reach": np.zeros((1 << 10, 4), np.uint8)}, "does not hold the arrays"),
        ({}, {"tag": np.zeros(1000, np.uint32)}, "does not hold the arrays"),
        ({}, {"guess": None}, "does not hold the arrays"),
        ({}, {"tag": None}, "does not hold the arrays"),
        ({}, {"other": np.zeros(1, np.uint8)}, "does not hold the arrays"),
    ],
)
def test_what_is_no_table_is_refused(
    tmp_path: Path, table: DraftTable, excerpt: dict[str, Any], arrays: dict[str, Any], message: str
) -> None:
    """A safetensors file that is whole, but not this."""
    from safetensors.numpy import load_file

    from bytenmt.checkpoints.tensor_file import read_arrays

    path = write_table(tmp_path, table, a_config(), FACTS)
    own = {name: part for name, part in (load_file(path) | arrays).items() if part is not None}
    metadata = {key: value for key, value in (read_arrays(path)[1] | excerpt).items() if value is not None}
    path.write_bytes(b"".join(map(bytes, serialise({name: entry(a) for name, a in own.items()}, metadata))))
    with pytest.raises(CheckpointError, match=message):
        read_table(tmp_path, a_config(), FACTS)


def test_a_wrong_number_of_slots_is_refused(tmp_path: Path) -> None:
    """They are addressed by bits."""
    write_table(tmp_path, empty_table(1000), a_config(), FACTS)
    with pytest.raises(CheckpointError, match="does not hold the arrays"):
        read_table(tmp_path, a_config(), FACTS)


def test_speculation_checks_its_number() -> None:
    """1 to 8, or as many as pay."""
    for most in (None, 1, CHAIN):
        Speculation(empty_table(), most)
    for most in (0, CHAIN + 1, -1):
        with pytest.raises(ValueError, match="expected 1 to 8"):
            Speculation(empty_table(), most)


@pytest.mark.slow
def test_reading_a_table_compiles_nothing() -> None:
    """Nor imports PyTorch: a line alone is answered at once."""
    program = (
        "import sys, bytenmt.decoding.drafts.table; sys.exit(bool({'numba', 'torch'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
