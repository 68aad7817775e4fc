"""Augmented training pairs: against plain Python, whatever the batch, process or restart."""

import random
import re
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_draw import splitmix

from bytenmt.config.schema import AUGMENTATIONS, DataConfig
from bytenmt.data.augment.augmenter import Augmenter, with_case, without_final_sign
from bytenmt.data.augment.copying import with_other_items
from bytenmt.data.augment.draws import keyed_draws
from bytenmt.data.augment.noise import Letters, with_noise
from bytenmt.data.augment.sentinels import SentinelAugmenter, find_shared, with_sentinels
from bytenmt.data.batches import Batch, assemble, batches
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.epoch_plan import epoch_plan
from bytenmt.data.text_file import TextFile
from bytenmt.kernel_constants import FIRST_SENTINEL
from bytenmt.sentinels import SENTINELS, find_spans, merge_adjacent, replace_spans, to_text
from bytenmt.utf8 import EOS

WORD = (1 << 64) - 1
SAMPLE = "The Übung größer ist, 서울 부산 대구; Мир — мир. ΑΒγδ 漢字 ij"
LETTERS = Letters.from_texts([SAMPLE])


def confusable(letter: str) -> list[str]:
    """The other letters of SAMPLE of its script, case and bytes, as the table has them, the last
    one in its place."""
    import unicodedata

    def kind(one: str) -> object:
        return len(one.encode()), unicodedata.name(one).split()[0], one.isupper()

    alike = sorted({one for one in SAMPLE if one.isalpha() and kind(one) == kind(letter)})
    if letter not in alike or len(alike) == 1:
        return []
    return [alike[-1] if one == letter else one for one in alike[:-1]]


def cased(letter: str) -> str:
    other = letter.swapcase()
    same = len(other) == 1 and len(other.encode()) == len(letter.encode()) and other != letter
    return other if same and letter.isalpha() and letter in SAMPLE else ""


def naive_noise(text: str, share: float, limit: int, key: int) -> str:
    """Add noise in plain Python, character by character."""
    draw = splitmix(key)
    out, k = "", 0
    while k < len(text):
        letter, rest = text[k], text[k + 1 :]
        drawn = draw()
        between = 0 < k < len(text) - 1 and re.fullmatch("[0-9].[0-9]", text[k - 1 : k + 2])
        if drawn >> 32 >= round(share * 2**32) or re.fullmatch("[0-9]", letter) or between:
            out, k = out + letter, k + 1
            continue
        kind = ("typo", "case", "swap", "drop", "double")[(drawn & 0xFFFFFFFF) * 5 >> 32]
        if kind == "case" and not cased(letter):
            kind = "typo"
        impossible = {
            "typo": not confusable(letter),
            "swap": not rest or re.match("[0-9]", rest),
            "drop": not out and not rest,
        }
        kind = "double" if impossible.get(kind) else kind
        if kind == "case":
            out += cased(letter)
        elif kind == "typo":
            alike = confusable(letter)
            out += alike[(draw() >> 32) * len(alike) >> 32]
        elif kind == "swap":
            out, k = out + rest[0] + letter, k + 1
        elif kind == "double":
            grown = out + 2 * letter + rest
            out += letter * (2 if len(grown.encode()) <= limit else 1)
        k += 1
    return out


@pytest.mark.slow
@given(
    st.text(st.sampled_from(SAMPLE + "0123x😀."), max_size=20),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.integers(0, WORD),
    st.integers(0, 60),
)
def test_noise_is_the_plain_one(line: str, share: float, key: int, more: int) -> None:
    """Character by character; no longer than it may be, never empty; numbers stay."""
    limit = len(line.encode()) + more
    text = with_noise(line.encode(), share, LETTERS, limit, np.uint64(key)).decode()
    assert text == naive_noise(line, share, limit, key)
    assert len(text.encode()) <= limit and bool(text) == bool(line)
    assert re.findall("[0-9]", text) == re.findall("[0-9]", line)


def other_items(source: str, target: str, key: int) -> tuple[str, str]:
    own, other = with_other_items(source.encode(), target.encode(), np.uint64(key))
    return own.decode(), other.decode()


PAIR = "Frau Müller zahlt 12,50 an Kim2 und Bob: https://a.example/x?y=1, {name} %s"
OTHER = "Ms Müller pays Bob 12,50, see https://a.example/x?y=1: {name} %s und"


def test_what_is_copied_is_another() -> None:
    """On both sides the same, of the same shape and as many bytes; kept spans stay, and so does
    what is on one side alone, or twice, or is a word without a capital."""
    source, target = other_items(PAIR, OTHER, 3)
    found = re.fullmatch(
        r"Frau ([A-Z][^ ]+) zahlt ([1-9]\d,\d\d) an Kim2 und ([B-DF-HJ-NP-TV-Z][aeiou]"
        r"[b-df-hj-np-tv-z]): https://a\.example/x\?y=1, \{name\} %s",
        source,
    )
    assert found is not None, source
    name, number, bob = found.groups()
    assert target == f"Ms {name} pays {bob} {number}, see https://a.example/x?y=1: {{name}} %s und"
    assert name != "Müller" and len(name.encode()) == 7
    assert len(source.encode()) == len(PAIR.encode())
    assert len(target.encode()) == len(OTHER.encode())


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Anna und Anna", "Anna"),  # twice
        ("Anna", "Anna, Annabel"),  # inside another word
        ("die 15", "the 151"),
        ("und", "und"),  # no name
        ("Ab", "Ab"),  # too short
        ("Bob2", "Bob2"),
    ],
)
def test_what_is_not_sure_to_be_copied_stays(source: str, target: str) -> None:
    assert other_items(source, target, 1) == (source, target)


@pytest.mark.slow
@given(st.text(st.sampled_from("Abcé 19.{}%s<>/@ü"), max_size=20), st.integers(0, WORD))
def test_a_copied_text_is_still_copied(text: str, key: int) -> None:
    """A text and itself become one text, of as many bytes, whose items are of the same kinds and
    places."""
    source, target = other_items(text, text, key)
    assert source == target and len(source.encode()) == len(text.encode())


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Thank you.", "Danke!", ("Thank you", "Danke")),
        ("Wo?!…", "どこ。", ("Wo", "どこ")),
        ("3 p.m.", "15 Uhr", ("3 p.m.", "15 Uhr")),
        ("...", "Lade …", ("...", "Lade …")),
        ("a. ", "b.", ("a. ", "b.")),
        ("", "", ("", "")),
    ],
)
def test_final_signs_go_on_both_sides(source: str, target: str, expected: tuple[str, str]) -> None:
    found = without_final_sign(source.encode(), target.encode(), np.uint64(1))
    assert found == tuple(text.encode() for text in expected)


def corpus_of(n: int = 60) -> ParallelCorpus:
    draw = random.Random(2)
    words = ["Anna", "zwölf", "서울", "12.5", "{name}", "Haus", "größer", "3"]
    lines = []
    for _ in range(n):
        line = " ".join(draw.choices(words, k=draw.randrange(1, 9)))
        lines.append(line + draw.choice([".", "?!", ""]))
    text = TextFile.from_bytes("\n".join(lines).encode(), "s")
    return ParallelCorpus.from_texts(text, text, 40, 60)


Pairs = list[tuple[bytes, bytes]]


def all_batches(augmenter: Augmenter, size: int, epoch: int, first: int = 0) -> list[Pairs]:
    """The pairs of each batch by row, from the shares of so many processes."""
    corpus = augmenter.corpus(epoch)
    plan = epoch_plan(corpus.source_lengths, corpus.target_lengths, 400, 1, epoch)
    found: list[Pairs] = []
    shares = []
    for rank in range(size):
        share = rank, size

        def change(batch: Batch, index: int, share: tuple[int, int] = share) -> Batch:
            return augmenter.change(batch, index, epoch, share)

        shares.append(list(batches(corpus, plan, first, share=share, change=change)))
    for parts in zip(*shares, strict=True):
        n = sum(len(part.target_len) for part in parts)
        found.append([])
        for row in range(n):
            part, k = parts[row % size], row // size
            source = part.source[k, : part.source_len[k]].tobytes()
            found[-1].append((source, part.target[k, : part.target_len[k] + 1].tobytes()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "shares",
    [
        {"noise": 0.3},
        {"copy": 0.5},
        {"noise": 0.2, "copy": 1.0},
        {"upper_case": 0.3, "title_case": 0.2, "lower_case": 0.3},
        {"unpunctuated": 0.9},
        {"empty_source": 0.4},
        {"sentinels": 0.5},
        {name: 0.2 for name in AUGMENTATIONS},
    ],
)
def test_batches_are_the_same_in_any_number_of_processes(shares: dict[str, float]) -> None:
    """And from any batch on; another epoch or seed has other ones; both sides keep their limits."""
    settings = DataConfig(**shares, max_source_bytes=40, max_target_bytes=60)
    augmenter = Augmenter(corpus_of(), settings, 1)
    one = all_batches(augmenter, 1, 0)
    again = Augmenter(corpus_of(), settings, 1)
    assert one == all_batches(augmenter, 3, 0) == all_batches(again, 2, 0)
    assert one[3:] == all_batches(augmenter, 1, 0, 3)
    assert sorted(sum(one, [])) != sorted(sum(all_batches(augmenter, 1, 1), []))
    assert one != all_batches(Augmenter(corpus_of(), settings, 2), 1, 0)
    assert max(len(source) for batch in one for source, _ in batch) <= 41
    assert max(len(target) for batch in one for _, target in batch) <= 62
    plain = all_pairs()
    if "sentinels" in shares:  # batches are other ones
        assert 0.2 < np.mean([pair not in plain for pair in sum(one, [])]) < 0.99
        return
    pairs = list(zip(sum(one, []), plain, strict=True))
    assert np.mean([new[0] != old[0] for new, old in pairs]) > 0.2
    keeps_targets = shares.keys() in ({"noise"}, {"empty_source"})
    assert any(new[1] != old[1] for new, old in pairs) != keeps_targets


def all_pairs(**shares: Any) -> Pairs:
    return sum(all_batches(Augmenter(corpus_of(), DataConfig(**shares), 1), 1, 0), [])


def test_a_share_of_the_sources_is_empty() -> None:
    """Their targets stay, and at a share of 1 no source is left."""
    empty = bytes([EOS])
    plain, found = all_pairs(), all_pairs(empty_source=0.3)
    assert [target for _, target in found] == [target for _, target in plain]
    assert 0.1 < np.mean([source == empty for source, _ in found]) < 0.5
    assert all(new[0] in (empty, old[0]) for new, old in zip(found, plain, strict=True))
    assert {source for source, _ in all_pairs(empty_source=1.0)} == {empty}


@pytest.mark.parametrize(
    ("case", "before", "after"),
    [
        ("upper", "Die Straße ist groß.", "DIE STRASSE IST GROSS."),
        ("upper", "open {name} at https://a.org/x?y=1", "OPEN {name} AT https://a.org/x?y=1"),
        ("upper", "%d files\\n in <b>it</b> &amp; ${x}", "%d FILES\\n IN <b>IT</b> &amp; ${x}"),
        ("upper", "&Datei öffnen", "&DATEI ÖFFNEN"),
        ("lower", "Die NATO tagt in ÖSTERREICH, %S", "die nato tagt in österreich, %S"),
        ("title", "don't ask what NATO is: élan, 3rd", "Don't Ask What NATO Is: Élan, 3rd"),
        ("upper", "서울 12", "서울 12"),
    ],
)
def test_letter_case(case: Literal["upper", "title", "lower"], before: str, after: str) -> None:
    assert with_case(before, case) == after


def restored(text: bytes, spans: dict[int, bytes]) -> bytes:
    """Put the texts of sentinels, by their bytes, in their places."""
    return b"".join(spans.get(byte, bytes([byte])) for byte in text)


SHARED = [
    ("Open {name} now.", "Öffne {name} jetzt.", [b"{name}"]),
    ("%s: %s of %d", "%d von %s: %s", [b"%s", b"%s", b"%d"]),
    ("See <b>{name}</b>!", "Siehe <b>{name}</b>!", [b"<b>{name}</b>"]),
    # Each by itself.
    ("See <b>{name}</b>!", "{name}: siehe <b>hier</b>!", [b"<b>", b"{name}", b"</b>"]),
    ("Open {name} now.", "Jetzt öffnen.", []),
    ("The sun.", "Die Sonne.", []),
]


@pytest.mark.parametrize(("source", "target", "spans"), SHARED)
def test_shared_spans_become_sentinels(source: str, target: str, spans: list[bytes]) -> None:
    """Each span another sentinel, the same on both sides, drawn at random."""
    drawn = set()
    for key in range(60):
        shared = find_shared(source, target)
        own, other = with_sentinels(source, target, shared, False, keyed_draws(np.uint64(key)))
        symbols = [byte for byte in own if byte >= FIRST_SENTINEL]
        assert sorted(symbols) == sorted(byte for byte in other if byte >= FIRST_SENTINEL)
        texts = dict(zip(symbols, spans, strict=True))
        assert restored(own, texts) == source.encode() and restored(other, texts) == target.encode()
        drawn.update(symbols)
    assert len(drawn) == (len(SENTINELS) if spans else 0)


def test_names_and_numbers_become_sentinels_or_stand_between_two() -> None:
    """Only those that stand once on both sides, outside of kept spans."""
    source, target = "Tom paid Mary 2,019 in {Rome}; Tom left", "2,019 zahlte Tom an Mary in {Rome}"
    forms, shared = set(), find_shared(source, target)
    for key in range(200):
        draws = keyed_draws(np.uint64(key))
        own, other = with_sentinels(source, target, shared, True, draws)
        for text in (own, other):
            symbols = bytes(byte for byte in text if byte >= FIRST_SENTINEL)
            assert len(set(symbols)) == len(symbols)
        forms.add(re.sub(b"[\xf5-\xfc]", b"*", own))
        assert b"Tom" in own and b"Tom" in other and b"{Rome}" not in own
    assert b"Tom paid * 2,019 in *; Tom left" in forms
    assert b"Tom paid *Mary* 2,019 in *; Tom left" in forms
    assert b"Tom paid * * in *; Tom left" in forms
    assert b"Tom paid Mary *2,019* in *; Tom left" in forms


PIECES = ["open", "Tom", "Rome", "2,019", ",", ".", "config.example.yaml", "v1.2.3", "{Name}"]
PIECES.append("<b>Tom</b>")


@given(st.lists(st.sampled_from(PIECES), max_size=9, unique=True), st.integers(0, WORD))
def test_spans_stay_whole(pieces: list[str], key: int) -> None:
    """No draw leaves a part of a shared span beside its sentinel: all other text is from outside of
    spans."""
    source, target = " ".join(pieces), " ".join(random.Random(key).sample(pieces, len(pieces)))
    shared = find_shared(source, target)
    pair = with_sentinels(source, target, shared, True, keyed_draws(np.uint64(key)))
    symbols = bytes(byte for byte in pair[0] if byte >= FIRST_SENTINEL)
    assert sorted(symbols) == sorted(byte for byte in pair[1] if byte >= FIRST_SENTINEL)
    for side, text in enumerate((source, target)):
        outside = iter(replace_spans(text, [(spans[side], "") for spans in shared]).encode())
        assert all(byte in outside for byte in pair[side] if byte < FIRST_SENTINEL)  # in this order


# Lines of programs, on one side or both: with names and numbers inside of kept spans and outside.
LINE_PIECES = [
    *("Tom", "Berlin", "2,019", "Anna Berg", "the", "der", "를", ", ", ": "),
    *("<b>Tom</b>", "{Tom}", "%(Berlin)s", "--Tom=Berlin", "https://Berlin.example/Tom", "$Anna"),
    *("Tom@Berlin.de", "/Tom/Berlin", "C:\\Berlin\\Tom", "Tom.Berlin.txt", "`Anna Tom`", "MP3"),
    *("TLS 1.2", "2024-05-17", "v2.0.19", "$2,019.50", "Ctrl+T", "<!-- Tom -->", "[[Anna]]"),
]
LINES = st.lists(st.sampled_from(LINE_PIECES), min_size=1, max_size=7).map(" ".join)


@given(LINES, LINES, st.integers(0, WORD), st.booleans())
def test_sentinels_stay_out_of_all_spans(source: str, target: str, key: int, is_raw: bool) -> None:
    """No span of either side is cut, also where the other side lacks it or the pair stays raw: each
    stands whole or is replaced whole, so that none of its characters is missing alone."""
    shared = [] if is_raw else find_shared(source, target)
    pair = with_sentinels(source, target, shared, True, keyed_draws(np.uint64(key)))
    for side, text in enumerate((source, target)):
        replaced = {places[side] for places in shared}
        rest = to_text(pair[side])
        for span in merge_adjacent(find_spans(text)):
            if any(span.begin < end and begin < span.end for begin, end in replaced):
                continue
            whole = text[span.begin : span.end]
            n_replaced = sum(text[begin:end].count(whole) for begin, end in replaced)
            assert rest.count(whole) == text.count(whole) - n_replaced


def test_a_corpus_with_sentinels_keeps_its_other_lines() -> None:
    """The plan sees their lengths, the files and the base corpus stay, and limits hold."""
    corpus = corpus_of(400)

    def pairs_of(some: ParallelCorpus) -> Pairs:
        return [(some.source(k), some.target(k)) for k in range(len(corpus))]

    before = pairs_of(corpus)
    augmenter = SentinelAugmenter(corpus, 0.25)
    changed = augmenter.corpus(7)
    after = pairs_of(changed)
    assert before == pairs_of(corpus)
    assert [len(source) for source, _ in after] == changed.source_lengths.tolist()
    assert [len(target) for _, target in after] == changed.target_lengths.tolist()
    has_span = np.array([b"{name}" in source for source, _ in before])
    is_changed = np.array([one != other for one, other in zip(before, after, strict=True)])
    assert 0.85 < is_changed[has_span].mean() < 1 and 0.05 < is_changed[~has_span].mean() < 0.3
    assert max(changed.source_lengths) <= 40 and max(changed.target_lengths) <= 60
    assert assemble(changed, np.arange(len(corpus))).pairs() == after
    assert after == pairs_of(augmenter.corpus(7)) != pairs_of(augmenter.corpus(8))


def test_noise_and_case_leave_sentinels_alone() -> None:
    line = "Öffne {name} bei https://a.example/xyz und %(count)s jetzt".encode()
    text = TextFile.from_bytes(b"\n".join([line] * 200), "s")
    corpus = ParallelCorpus.from_texts(text, text, 200, 200)
    settings = DataConfig(noise=0.3, sentinels=1e-9, upper_case=0.5, copy=0.5)
    augmenter = Augmenter(corpus, settings, 1)
    plain = assemble(augmenter.corpus(0), np.arange(200))
    batch = augmenter.change(plain, 0, 0)
    assert len({source for source, _ in batch.pairs()}) > 150
    for old, new in zip(plain.source, batch.source, strict=True):
        symbols = [[byte for byte in row.tolist() if byte in SENTINELS] for row in (old, new)]
        assert symbols[0] == symbols[1]
