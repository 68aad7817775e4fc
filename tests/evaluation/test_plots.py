"""Figures: what stands in them, in letters that can be read."""

import numpy as np
import pytest

from bytenmt.evaluation import plots

PNG = b"\x89PNG\r\n\x1a\n"
SOURCE, TEXT = "가 <b>", "x&é"


def test_bytes_are_merged_to_characters() -> None:
    """The sum over a source character's bytes, the mean over the text's; the layers' mean comes
    first."""
    layer = np.arange(12, dtype=np.float32).reshape(2, 6)  # é; 가, a, b and the end
    found = plots.attention_maps("가ab".encode(), "é".encode(), {2: layer, 5: layer + 6})
    assert [*found] == ["mean of 2 layers", "layer 2", "layer 5"]
    assert found["layer 2"].tolist() == [[(0 + 1 + 2 + 6 + 7 + 8) / 2, 6, 7, 8]]
    assert found["mean of 2 layers"].tolist() == [[12 + 9, 9, 10, 11]]
    assert [*plots.attention_maps(b"abcde", b"xy", {1: layer})] == [""]


@pytest.mark.slow
def test_a_heat_map_has_a_panel_for_each_layer() -> None:
    pytest.importorskip("matplotlib")
    random = np.random.default_rng(1)
    shape = (len(TEXT.encode()), len(SOURCE.encode()) + 1)
    drawn = [random.dirichlet(np.ones(shape[1]), shape[0]).astype(np.float32) for _ in range(3)]
    layers = dict(zip((1, 2, 4), drawn, strict=True))
    maps = plots.attention_maps(SOURCE.encode(), TEXT.encode(), layers)
    made = plots.draw_attention(SOURCE, TEXT, maps)
    assert [axes.get_xlabel() for axes in made.axes] == [*maps]
    for axes, weights in zip(made.axes, maps.values(), strict=True):
        assert np.array_equal(np.asarray(axes.images[0].get_array()), weights)
        assert len(axes.get_xticklabels()) == len(SOURCE) + 1
        assert len(axes.get_yticklabels()) == len(TEXT)
    assert plots.png(made).startswith(PNG)


@pytest.mark.slow
def test_curves_are_of_what_was_written() -> None:
    """A panel for each score that a run measured, a line for each run that did, a thin one for
    training, without a last point of a few updates; the eleventh run has another line style."""
    pytest.importorskip("matplotlib")
    written = [
        {"update": 1, "seconds": 60.0, "train_bits_per_byte": 3.0},
        {"update": 2, "seconds": 120.0, "valid_bits_per_byte": 2.0, "valid_chrf": 10.0},
        {"update": 4, "seconds": 240.0, "valid_bits_per_byte": 1.0},
    ]
    trained = [
        {"update": at, "seconds": 60.0 * at, "train_bits_per_byte": 9.0 / at}
        for at in (50, 100, 124)
    ]
    made = plots.learning_curves({"하나": written, "two": written[1:2]})
    assert [axes.get_xlabel() for axes in made.axes] == ["update", "minutes", "minutes"]
    by_update, by_time, chrf = made.axes
    for axes in (by_update, by_time):  # whose minutes are the updates
        assert np.asarray(axes.lines[0].get_xydata()).tolist() == [[2, 2.0], [4, 1.0]]
    assert [len(axes.lines) for axes in (by_update, by_time, chrf)] == [3, 3, 2]
    names = [text.get_text() for text in made.legends[0].get_texts()]
    assert names == ["하나", "two", "validation", "training"]
    assert plots.png(made).startswith(PNG)
    line = plots.learning_curves({"new": trained}).axes[0].lines[0]
    assert np.asarray(line.get_xdata()).tolist() == [50, 100]
    made = plots.learning_curves({str(number): written for number in range(11)})
    first, _, *_, last, _ = made.axes[0].lines
    assert first.get_color() == last.get_color() and first.get_linestyle() != last.get_linestyle()


def test_labels_are_in_the_installed_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A font with Hangul follows matplotlib's own, which has none; what is not installed is left
    out."""
    font_manager = pytest.importorskip("matplotlib.font_manager")
    assert plots.label_families()[0] == plots.FAMILIES[0]
    names = ["Last Resort", "NanumGothic", "NanumGothic", plots.FAMILIES[0]]
    fonts = [font_manager.FontEntry(name=name) for name in names]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", fonts)
    assert plots.label_families() == [plots.FAMILIES[0], "NanumGothic"]
