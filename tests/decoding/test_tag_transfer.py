"""Paired tags stay out of the search, and come back around the words that attend to what they enclosed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from made_up_engine import make_run

from bytenmt.decoding.constraints.constraint_spec import PLACEMENT
from bytenmt.decoding.interface import Hypothesis
from bytenmt.decoding.tag_transfer import (
    LONGEST,
    Placement,
    best_extension,
    best_range,
    insert_tags,
    split_tags,
)
from bytenmt.decoding.translator import Translator
from bytenmt.spans.extractor import span_extractor

KEPT = ("placeholders", "tags", "urls", "emails")
EXTRACTOR = span_extractor(KEPT)
TAG = re.compile(r"<(/?)([a-z])\d*>")


def place(source: str, text: str, links: Sequence[tuple[str, str]], nth: int = 0) -> str:
    """Return a text with the tags of its source. links: parts of the text, and of the source without tags,
    that they attend to; all other bytes attend to the end of the source."""
    line = split_tags(source.encode(), EXTRACTOR)
    assert line is not None
    weights = np.zeros((len(text.encode()), len(line.text) + 1), np.float32)
    weights[:, -1] = 1.0
    for part, word in links:
        begin, at = text.encode().index(part.encode()), line.text.index(word.encode())
        rows = slice(begin, begin + len(part.encode()))
        weights[rows] = 0.0
        weights[rows, at : at + len(word.encode())] = 1.0 / len(word.encode())
    tags = Placement(line, text.encode(), weights, EXTRACTOR).tags()
    return insert_tags(Hypothesis(text.encode(), -1.0, -1.0), tags).text.decode()


@pytest.mark.parametrize(
    ("source", "text", "links", "expected"),
    [
        # the words change their places
        ("<b>do not</b> go", "geh nicht", [("nicht", "do not"), ("geh", "go")], "geh <b>nicht</b>"),
        ("a <b>b</b> <i>c</i>", "y z x", [("x", "a"), ("y", "c"), ("z", "b")], "<i>y</i> <b>z</b> x"),
        # elements in elements
        (
            "<a><b>one</b> two</a> three",
            "drei zwei eins",
            [("drei", "three"), ("zwei", "two"), ("eins", "one")],
            "drei <a>zwei <b>eins</b></a>",
        ),
        # a pair around everything stays there, whatever attends to what
        ("<b>all of it</b>", "alles", [], "<b>alles</b>"),
        ("<a><b>all</b></a>.", "alles.", [("alles", "all")], "<a><b>alles</b></a>."),
        # signs at an end belong to an element only if it has some there
        ("go <b>home</b>.", "geh heim.", [("heim.", "home"), ("geh", "go")], "geh <b>heim</b>."),
        ("go <b>home.</b>", "geh heim.", [("heim", "home"), ("geh", "go")], "geh <b>heim.</b>"),
        # placeholders and tags that stand alone are where they were, whatever they attend to
        ("<b>%s</b>: new", "neu: %s", [("%s", "new"), ("neu", "%s")], "neu: <b>%s</b>"),
        ("<b>x</b> %s <br/>", "%s <br/> x", [("%s <br/>", "x"), ("x", "x")], "%s <br/> <b>x</b>"),
        # no word attends to it mostly: the one that does most
        ("a <b>b</b> c", "x y", [("x", "a b c"), ("y", "a")], "<b>x</b> y"),
        # nothing inside: between the words before it and those after it
        ("a <b></b>b", "y x", [("y", "b"), ("x", "a")], "<b></b>y x"),
        ("a <b></b>b", "x y", [("y", "b"), ("x", "a")], "x <b></b>y"),
        # no text at all
        ("a <b>b</b>", "", [], "<b></b>"),
        # a script without spaces, and particles behind a word
        (
            "the <b>file</b> of",
            "그 파일을",
            [("파일", "file"), ("그", "the")],
            "그 <b>파일</b>을",
        ),
        # an accent stays with its letter
        ("an <b>e</b> c", "e\u0301 c", [("e", "e"), ("c", "c"), ("\u0301", "c")], "<b>e\u0301</b> c"),
        # a word is not cut, even where signs join it
        ("a <b>b</b>", "x y-z", [("x", "a"), ("y", "b"), ("z", "a")], "x <b>y-z</b>"),
    ],
)
def test_placement(source: str, text: str, links: list[tuple[str, str]], expected: str) -> None:
    assert place(source, text, links) == expected


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("a <b>b</b> c", "a b c"),
        ('<a href="x">a <b>b</b></a>, %s<br/>', "a b, %s<br/>"),
        ("no tags", None),
        ("one <br/> alone", None),
        ("not <b>closed", None),
        ("a <b>b</b> and </i>", None),
        ("crossed <b>a <i>b</b> c</i>", None),
        ("<b>Ctrl</b><b>C</b>", None),  # would be CtrlC
        ("Yesterday<sup>1</sup> we", None),  # would be Yesterday1
        ("é<sup>1</sup> and <b>2</b>x", None),
        ("un<b>believ</b>able, <b>1</b> 2", "unbelievable, 1 2"),
        ("<b>a1</b>", "a1"),
        ("{<b>a</b>}", None),  # would be the placeholder {a}
        ("50 <b>%</b>s", None),  # would be the placeholder %s
        (f"<b>{'a ' * (LONGEST // 2)}</b>", None),
    ],
)
def test_which_lines_are_split(line: str, text: str | None) -> None:
    found = split_tags(line.encode(), EXTRACTOR)
    assert (None if found is None else found.text.decode()) == text


WORDS = st.sampled_from(["a", "bcd", "é", "파일", "%s", "{n}", "<br/>", ",", ".", "http://a.b/c", "e\u0301"])
TREES = st.recursive(
    st.lists(WORDS, max_size=4).map(" ".join),
    lambda inner: st.lists(
        st.one_of(
            WORDS, st.tuples(st.sampled_from("bui"), inner).map(lambda it: f"<{it[0]}>{it[1]}</{it[0]}>")
        ),
        max_size=5,
    ).map(" ".join),
    max_leaves=12,
)


def tree(text: str) -> list[tuple[str, str]]:
    """Return the name of each element with that of the element around it, sorted; fail where they cross."""
    found, around = [], [""]
    for match in TAG.finditer(text):
        if match[1]:
            assert around.pop() == match[2]
        else:
            found.append((match[2], around[-1]))
            around.append(match[2])
    assert around == [""]
    return sorted(found)


@given(TREES, st.lists(WORDS, max_size=8).map(" ".join), st.integers(0, 1 << 30))
def test_any_tree_comes_back(source: str, text: str, seed: int) -> None:
    """With any attention, all tags are there, nest as in the source, and nothing else changes."""
    line = split_tags(source.encode(), EXTRACTOR)
    assume(line is not None)
    assert line is not None
    draw = np.random.default_rng(seed)
    sharpness = np.full(len(line.text) + 1, draw.choice([0.1, 5.0]))
    weights = draw.dirichlet(sharpness, len(text.encode())).astype(np.float32)
    tags = Placement(line, text.encode(), weights, EXTRACTOR).tags()
    scores = tuple(-draw.random(len(text.encode()) + 1))
    made = insert_tags(Hypothesis(text.encode(), sum(scores), -1.0, byte_scores=scores), tags)
    written = made.text.decode()
    assert TAG.sub("", written) == text and tree(written) == tree(source)
    assert [one.of for one in EXTRACTOR.spans(made.text)].count("tags") == written.count("<")
    assert len(made.byte_scores) == len(made.text) + 1
    assert [one for one in made.byte_scores if one] == [one for one in scores if one]
    for kept in re.findall(r"<br/>|%s|\{n\}|http://a.b/c", text):
        assert written.count(kept) == text.count(kept)


VALUES = st.lists(st.tuples(st.integers(-4, 4), st.booleans()), max_size=9)


@given(VALUES)
def test_best_range_is_the_best_of_all(values: list[tuple[int, bool]]) -> None:
    worth, is_free = np.array([v for v, _ in values], float), np.array([free for _, free in values], bool)
    low, high = best_range(worth, is_free)
    every = [
        worth[i:k].sum()
        for i in range(len(values))
        for k in range(i + 1, len(values) + 1)
        if is_free[i:k].all()
    ]
    assert is_free[low:high].all() and (worth[low:high].sum() == max(every) if every else low == high)
    n = best_extension(worth, is_free)
    begins = [worth[:k].sum() for k in range(len(values) + 1) if is_free[:k].all()]
    assert is_free[:n].all() and worth[:n].sum() == max(begins)


LINES = [
    "%s <b>one two</b> three",
    "one <i>two <b>three</b></i>. <b>Five</b>",
    "a <b>b</b><br/>",
    "plain",
]
PLAIN = ["%s one two three", "one two three. Five", "a b<br/>", "plain"]


@pytest.mark.parametrize("engine", ["torch", pytest.param("numba", marks=pytest.mark.slow)])
@pytest.mark.parametrize("arch", ["luong", "bahdanau", "convs2s", "transformer"])
def test_the_text_is_that_of_the_plain_line(tmp_path: Path, arch: str, engine: str) -> None:
    """Translations differ by their tags alone, for all hypotheses, line by line, and as a stream."""
    if (arch, engine) == ("transformer", "numba"):
        pytest.skip("the Transformer has no program")
    settings = {"engine": engine, "device": "cpu", "max_len_a": 1.0, "max_len_b": 9, "keep": KEPT}
    translator = Translator.load(make_run(tmp_path / "run", arch), beam=3, n_best=2, **settings)
    found, plain = translator.n_best(LINES), translator.n_best(PLAIN)
    for source, tagged, untagged in zip(LINES, found, plain, strict=True):
        assert [TAG.sub("", one.text) for one in tagged] == [one.text for one in untagged]
        assert [one.score for one in tagged] == pytest.approx([one.score for one in untagged])
        assert all(tree(one.text) == tree(source) for one in tagged)
    assert [[one.text for one in translator.n_best(line)] for line in LINES] == [
        [one.text for one in tagged] for tagged in found
    ]
    sampling = Translator.load(tmp_path / "run", sample=True, seed=3, **settings)
    samples = sampling.translate(LINES[:1] * 3)
    assert [TAG.sub("", one) for one in samples] == sampling.translate(PLAIN[:1] * 3) and len(
        set(samples)
    ) > 1
    greedy = Translator.load(tmp_path / "run", **settings)
    assert ["".join(greedy.stream(line)) for line in LINES] == greedy.translate(LINES)
    prefixed = Translator.load(tmp_path / "run", prefix="<b>one", **settings)
    assert prefixed.translate(LINES[0]).startswith("<b>one")


def test_without_attention_the_search_writes_the_tags(tmp_path: Path) -> None:
    settings = {"engine": "torch", "max_len_a": 1.0, "max_len_b": 9, "keep": KEPT}
    for arch in ("seq2seq", "bytenet"):
        translator = Translator.load(make_run(tmp_path / arch, arch), **settings)
        assert translator.tags is None
        assert all(
            tree(text) == tree(line) for line, text in zip(LINES, translator.translate(LINES), strict=True)
        )


def test_an_emptied_element_is_flagged(tmp_path: Path) -> None:
    """A translation that has no words for an element is marked for review."""
    run = make_run(tmp_path / "run")
    translator = Translator.load(run, engine="torch", max_len_a=0.0, max_len_b=0, keep=KEPT)
    (best,) = translator.n_best("one <b>two</b>")
    assert best.text == "<b></b>" and best.flags == (PLACEMENT,)
