"""A reverse model ranks hypotheses by the probability that it gives their source."""

from pathlib import Path
from typing import Any

import pytest
import torch
from invariants import log_probability
from made_up_engine import make_run

from bytenmt import Run, Translator
from bytenmt.decoding.interface import AUTO
from bytenmt.errors import BytenmtError
from bytenmt.reporter import SILENT
from bytenmt.serve.loading import load_models
from bytenmt.serve.worker import TranslationJob
from bytenmt.utf8 import EOS

LINES = ["a bc", "dd a", "", "x", "a bc. dd a!", "zz top", "one two three", "q?", "Hello", "(what)"]
SEARCH: dict[str, Any] = {"max_len_a": 1.0, "max_len_b": 3, "device": "cpu", "threads": 1}


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return make_run(tmp_path / "there")


@pytest.fixture
def back(tmp_path: Path) -> Path:
    return make_run(tmp_path / "back", "luong", seed=4)


def source_log_probability(run: Path, text: bytes, source: bytes) -> float:
    """log p(source | text) by the PyTorch module, from its logits."""
    src = torch.tensor([[*text, EOS]], dtype=torch.uint8)
    return log_probability(Run(run).model(), src, source)


@pytest.mark.slow
@pytest.mark.parametrize("length_penalty", [1.0, 0.4])
def test_scores_of_both_directions_add(there: Path, back: Path, length_penalty: float) -> None:
    """The hypotheses are those of the search, in the order of the sums, of which n_best are
    returned."""
    search = {**SEARCH, "beam": 5, "length_penalty": length_penalty}
    plain = Translator.load(there, n_best=5, **search)
    ranked = Translator.load(there, n_best=3, reverse=back, **search)
    n_moved = 0
    for line, before, after in zip(LINES, plain.n_best(LINES), ranked.n_best(LINES), strict=True):
        if not line:
            assert [one.text for one in after] == [""]
            continue
        scale = 0.3 / (len(line) + 1) ** length_penalty
        scores = {}
        of_source = {}
        for one in before:
            reverse = source_log_probability(back, one.text.encode(), line.encode())
            of_source[one.text] = reverse
            scores[one.text] = one.score + scale * reverse
        expected = sorted(scores, key=lambda text: -scores[text])
        n_moved += expected[0] != before[0].text
        assert [one.text for one in after] == expected[:3]
        for one in after:
            assert one.score == pytest.approx(scores[one.text], abs=1e-5)
            assert one.source_log_probability == pytest.approx(of_source[one.text], abs=1e-3)
        of_search = {one.text: one.log_probability for one in before}
        assert all(one.log_probability == of_search[one.text] for one in after)
    assert n_moved, "no hypothesis has changed its place: the test shows nothing"


def test_each_sentence_of_a_line_is_ranked(there: Path, back: Path) -> None:
    ranked = Translator.load(there, reverse=back, beam=4, split_sentences="always", **SEARCH)
    plain = Translator.load(there, beam=4, split_sentences="always", **SEARCH)
    sentences = ["A bc.", "Dd a!", "Zz top.", "One two three!"]
    parts = ranked.translate(sentences)
    assert parts != plain.translate(sentences), "the test shows nothing"
    assert ranked.translate(" ".join(sentences)) == " ".join(parts)


def test_what_reranking_needs(there: Path, back: Path, tmp_path: Path) -> None:
    searches: list[dict[str, Any]] = [{}, {"beam": 4, "sample": True}]
    for search in searches:
        plain = Translator.load(there, **SEARCH, **search).n_best(LINES)
        assert Translator.load(there, reverse=back, **SEARCH, **search).n_best(LINES) == plain
    language_model = make_run(tmp_path / "language", settings=("model.source=false",))
    with pytest.raises(BytenmtError, match=f"{language_model} is a language model"):
        Translator.load(there, reverse=language_model, beam=2, **SEARCH)


def test_a_server_ranks_by_the_model_of_the_opposite_direction(there: Path, back: Path) -> None:
    lines = [line for line in LINES if line]
    pairs = [f"ko-en={there}", f"en-ko={back}"]
    decoding = {"beam": 4, "max_len_a": 1.0, "max_len_b": 3, "precision": AUTO, "threads": 1}
    models = load_models(pairs, decoding | {"reverse": True, "keep": "", "glossary": ()}, SILENT)
    n_moved = 0
    for model, own, other in zip(models.values(), (there, back), (back, there), strict=True):
        ranked = Translator.load(own, reverse=other, beam=4, **SEARCH).translate(lines)
        n_moved += ranked != Translator.load(own, beam=4, **SEARCH).translate(lines)
        results = model.worker.submit(TranslationJob([line.encode() for line in lines])).result(60)
        assert [result.best.text.decode() for result in results] == ranked
    assert n_moved, "no hypothesis has changed its place: the test shows nothing"
