"""Pictures and pages: what stands in them, in letters that can be read."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenmt.errors import BytenmtError
from bytenmt.evaluation import drawing, embedding_map, heat_map
from bytenmt.evaluation.heat_map import HeatMaps

PNG = b"\x89PNG\r\n\x1a\n"
SOURCE, TEXT = "가 <b>", "x&é"


def some_maps(*numbers: int) -> HeatMaps:
    random = np.random.default_rng(1)
    shape = (len(TEXT.encode()), len(SOURCE.encode()) + 1)
    layers = {n: random.dirichlet(np.ones(shape[1]), shape[0]).astype(np.float32) for n in numbers}
    return HeatMaps.from_layers(SOURCE.encode(), TEXT.encode(), layers)


def test_bytes_are_merged_to_characters() -> None:
    """The sum over a source character's bytes, the mean over the text's; the layers' mean comes first."""
    layer = np.arange(12, dtype=np.float32).reshape(2, 6)  # é; 가, a, b and the end
    found = HeatMaps.from_layers("가ab".encode(), "é".encode(), {2: layer, 5: layer + 6})
    assert [*found.maps] == ["mean of 2 layers", "layer 2", "layer 5"]
    assert found.maps["layer 2"].tolist() == [[(0 + 1 + 2 + 6 + 7 + 8) / 2, 6, 7, 8]]
    assert found.maps["mean of 2 layers"].tolist() == [[12 + 9, 9, 10, 11]]
    assert [*HeatMaps.from_layers(b"abcde", b"xy", {1: layer}).maps] == [""]


def test_a_page_stands_alone() -> None:
    """Nothing is asked of another host, and no script runs; each weight is there, the text as it is."""
    found = some_maps(1, 2)
    page = heat_map.page(found, "a <run>").decode()
    assert not re.search(r"https?:|//|src=|href=|url\(|@import|<script", page)
    assert "<title>a &lt;run&gt;</title>" in page and "<b>" not in page and "<th>가" in page
    titles = re.findall(r'title="([\d.]+)"', page)
    expected = [f"{weight:.3f}" for weights in found.maps.values() for weight in weights.flat]
    assert titles == expected and page.count("<table>") == page.count("</table>") == 3


@pytest.mark.slow
def test_a_picture_has_a_panel_for_each_map() -> None:
    pytest.importorskip("matplotlib")
    found = some_maps(1, 2, 4)
    made = heat_map.figure(found)
    assert [axes.get_xlabel() for axes in made.axes] == [*found.maps]
    for axes, weights in zip(made.axes, found.maps.values(), strict=True):
        assert np.array_equal(axes.images[0].get_array(), weights)
        assert len(axes.get_xticklabels()) == len(SOURCE) + 1 and len(axes.get_yticklabels()) == len(TEXT)
    assert drawing.png(made).startswith(PNG)


def test_what_no_font_has_is_spelt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hangul syllable by its sound, another character by its number; where a font has it, as it is."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(drawing, "_fonts", lambda: [])
    labels = drawing.Labels.from_texts(["한글 abc é", "漢"])
    assert labels.unknown == {"한", "글", "漢"} and labels.families == [drawing.SANS]
    assert labels.legible("한글 é漢") == "hangeul é6F22"
    font = drawing._file(drawing.SANS)
    has = drawing._characters(font) | {ord(letter) for letter in "한글"}
    monkeypatch.setattr(drawing, "_fonts", lambda: [("A", "none"), ("B", "b")])
    monkeypatch.setattr(drawing, "_characters", lambda file: has if file == "b" else frozenset(range(0x80)))
    labels = drawing.Labels.from_texts(["한글 漢"])
    assert labels.families == [drawing.SANS, "B"] and labels.unknown == {"漢"}


def test_every_label_can_be_seen() -> None:
    assert [drawing.shown(letter) for letter in " \tx가\u200b"] == ["␣", "␉", "x", "가", "200B"]


def test_without_matplotlib_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BytenmtError, match=r"pip install 'bytenmt\[plots\]'"):
        drawing.require_matplotlib()


@given(st.integers(3, 12), st.integers(1, 6), st.integers(0, 9))
def test_the_map_is_that_of_the_covariance(n: int, d: int, seed: int) -> None:
    """Its axes are the two of most variance: the places' covariance is diagonal with its largest eigenvalues,
    and the shares are theirs of the trace."""
    table = np.random.default_rng(seed).normal(size=(256, d))
    chosen = [*range(40, 40 + n)]
    places, shares = embedding_map.principal(table, chosen)
    values = np.linalg.eigvalsh(np.cov(table[chosen].T, bias=True).reshape(d, d))[::-1]
    values = np.pad(values, (0, 2))[:2]
    assert np.allclose(np.cov(places.T, bias=True), np.diag(values), atol=1e-9)
    assert np.allclose(shares * np.trace(np.cov(table[chosen].T, bias=True).reshape(d, d)), values, atol=1e-9)


def test_neighbours_are_those_at_the_smallest_angle() -> None:
    table = np.random.default_rng(3).normal(size=(256, 8))
    table[ord("b")] = 7 * table[ord("a")]  # the same direction
    table[ord("c")] = -table[ord("a")]
    chosen = [ord(letter) for letter in "abcdefg"]
    found = dict(embedding_map.neighbours(table, chosen, 3))
    assert found[ord("a")][0] == (ord("b"), pytest.approx(1.0))
    for byte, near in found.items():
        cosines = {
            other: table[byte] @ table[other] / np.linalg.norm(table[byte]) / np.linalg.norm(table[other])
            for other in chosen
            if other != byte
        }
        # By cosines, not by letters: a and b are as near to every other one, but for rounding.
        assert [cosine for _, cosine in near] == pytest.approx(sorted(cosines.values(), reverse=True)[:3])
        assert [cosine for _, cosine in near] == pytest.approx([cosines[other] for other, _ in near])
    assert next(embedding_map.listing(table, [0x20, 0x24, 0xEA], 1)).split()[0] == "␣"


@pytest.mark.slow
def test_bytes_of_every_kind_are_on_the_map() -> None:
    pytest.importorskip("matplotlib")
    table = np.random.default_rng(3).normal(size=(256, 8))
    made = embedding_map.figure(table, [0x00, *embedding_map.IN_TEXT])
    (axes,) = made.axes
    assert {"A", "7", "␣", r"\$", "EA", "00"} <= {text.get_text() for text in axes.texts}
    assert len(axes.texts) == 1 + len(embedding_map.IN_TEXT)
    assert drawing.png(made).startswith(PNG)
