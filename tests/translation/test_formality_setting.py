"""Forms of address in use: from the setting to the byte that an engine reads, and no further."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import invoke
from made_up_engine import made_up_translator, make_run, small_model
from small_runs import config

from bytenmt.data.pair_files import PairFiles
from bytenmt.datasets.translate import Translate
from bytenmt.decoding.interface import EngineSpec, Request, SearchOptions
from bytenmt.decoding.loading import load_runs
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.decoding.scheduler import decode
from bytenmt.errors import SettingError
from bytenmt.formality import FORM_BYTES, FORMS, Form
from bytenmt.training.run import train
from bytenmt.translation.reranking import Reranker
from bytenmt.translation.translator import Translator

CPU = torch.device("cpu")
ABLE = ("data.formality=0.5",)
NEEDS_MODEL = "formality needs a model that was trained with forms of address"
SOURCES = [b"one two", "세 넷".encode(), b"x"]


@pytest.fixture(scope="module")
def able(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of random weights whose configuration says that it has learned forms."""
    return make_run(tmp_path_factory.mktemp("runs") / "able", settings=ABLE)


def test_each_chunk_of_a_line_asks_for_the_form_and_its_source_stays() -> None:
    admitted: list[list[Request]] = []
    translator = made_up_translator(
        admitted, ("en",), formality="formal", max_source_bytes=9, keep="placeholders"
    )
    (result,) = translator.translate_lines([b"Good {a} one. Another long one."])
    requests = [request for batch in admitted for request in batch]
    assert len(requests) > 3 and {request.formality for request in requests} == {"formal"}
    assert all(not set(b"\xc0\xc1") & set(request.source or b"") for request in requests)
    assert {(request.encoded_source or b"")[:1] for request in requests} == {b"\xc1"}
    assert result.source == b"Good {a} one. Another long one."
    assert result.best.text.decode() and b"{a}" in result.best.text


def test_without_the_setting_a_source_is_read_as_it_is() -> None:
    admitted: list[list[Request]] = []
    made_up_translator(admitted).translate("a b")
    (request,) = admitted[0]
    assert request.formality is None and request.encoded_source == request.source == b"a b"


def test_the_opposite_model_does_not_see_the_form() -> None:
    texts: list[bytes] = []

    class Noted(TorchScorer):
        def score_texts(self, sources: Any, targets: Any, formality: Any = None) -> Any:
            texts.extend([*sources, *targets])
            return super().score_texts(sources, targets, formality)

    request = Request(b"one", 9, formality="informal")
    translator = made_up_translator(n_best=2)
    with translator._engine(1) as engine:
        ((_, hypotheses),) = decode(engine, [request])
    Reranker(Noted([small_model("luong")], CPU), 1.0).rerank(request, hypotheses)
    assert texts and not any(set(b"\xc0\xc1") & set(text) for text in texts)


@pytest.mark.parametrize("engine", ["torch", "numba"])
@pytest.mark.parametrize("form", FORMS)
def test_engines_read_the_byte_before_the_source(able: Path, engine: str, form: Form) -> None:
    runtime = load_runs([able], EngineSpec(engine, "cpu", "fp32", 1))
    options = SearchOptions(beam=2)
    asked = [Request(source, 12, formality=form) for source in SOURCES]
    plain = [Request(FORM_BYTES[form] + source, 12) for source in SOURCES]
    none = [Request(source, 12) for source in SOURCES]
    cases = (asked, plain, none)
    outputs = [dict(decode(runtime.make_engine(options, 4), requests)) for requests in cases]
    assert outputs[0] == outputs[1] != outputs[2]
    for hypotheses in outputs[0].values():
        assert hypotheses[0].text.decode() is not None


@pytest.mark.parametrize("engine", ["torch", "numba"])
@pytest.mark.parametrize("arch", ["luong", "convs2s"])
def test_scorers_read_it_and_attention_lacks_it(tmp_path: Path, engine: str, arch: str) -> None:
    run = make_run(tmp_path / "run", arch, settings=ABLE)
    runtime = load_runs([run], EngineSpec(engine, "cpu", "fp32", 1))
    texts = [b"ab\xff", "다라".encode(), b"q\xff"]
    prefixed = [b"\xc1" + source for source in SOURCES]
    scorer = runtime.make_scorer()
    asked = scorer.score_texts(SOURCES, texts, "formal")
    for one, other in zip(asked, scorer.score_texts(prefixed, texts), strict=True):
        assert np.array_equal(one.log_p, other.log_p)
    (attentive,) = runtime.make_attention_scorers()
    pairs = list(zip(SOURCES, [b"ab", b"cde", b"f"], strict=True))
    whole = attentive.attention_weights([(b"\xc1" + source, text) for source, text in pairs])
    found = attentive.attention_weights(pairs, "formal")
    for (source, text), layers, others in zip(pairs, found, whole, strict=True):
        for number, weights in layers.items():
            assert weights.shape == (len(text), len(source) + 1)
            assert np.array_equal(weights, others[number][:, 1:])


def test_a_model_that_cannot_refuses_in_one_line(tmp_path: Path, able: Path) -> None:
    plain = make_run(tmp_path / "plain")
    with pytest.raises(SettingError, match=NEEDS_MODEL):
        Translator.load(plain, formality="formal", device="cpu")
    with pytest.raises(SettingError, match=NEEDS_MODEL):  # an ensemble is as able as each model
        Translator.load(able, plain, formality="formal", device="cpu")
    with pytest.raises(SettingError, match="formality is 'polite': expected one of"):
        Translator.load(able, formality="polite", device="cpu")
    (tmp_path / "in").write_text("a\n")
    for more in ([], ["--workers", "2"]):
        result = invoke("translate", plain, "-i", tmp_path / "in", "--formality", "formal", *more)
        assert result.exit_code == 1 and NEEDS_MODEL in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_commands_ask_for_the_form(tmp_path: Path, able: Path) -> None:
    """`translate` with alignment, `translate-file`, `evaluate`, and a column of a data set."""
    limits = ["--max-len-a", "0", "--max-len-b", "9"]
    expected = Translator.load(able, formality="formal", device="cpu", max_len_a=0, max_len_b=9)
    other = Translator.load(able, device="cpu", max_len_a=0, max_len_b=9)
    lines = [f"One, 둘 {k}" for k in range(40)]
    pairs = zip(lines, expected.translate(lines), other.translate(lines), strict=True)
    line, text = next((line, asked) for line, asked, plain in pairs if asked != plain)
    words = [able, "--formality", "formal", "--device", "cpu", *limits]
    source, target, reference = (tmp_path / name for name in ("in.txt", "out.txt", "reference"))
    source.write_text(f"{line}\n", encoding="utf-8")
    reference.write_text(f"{text}\n", encoding="utf-8")
    translate = ["translate", *words, "-i", source]
    result = invoke(*translate)
    assert result.exit_code == 0 and result.stdout == f"{text}\n"
    result = invoke(*translate, "--format", "jsonl", "--alignment")
    record = json.loads(result.stdout)
    assert record["source"] == line and record["text"] == text
    assert [link["chars"][0] for link in record["alignment"]] == list(range(len(text)))
    assert all(0 <= link["source_chars"][0] < len(line) for link in record["alignment"])
    result = invoke("translate-file", able, source, target, *words[1:])
    assert result.exit_code == 0 and target.read_text(encoding="utf-8") == f"{text}\n"
    pair = ["--src", source, "--ref", reference]
    scores = json.loads(invoke("evaluate", *words, *pair, "--json").stdout)
    assert "100.0" in json.dumps(scores)
    column = Translate(able, formality="formal", device="cpu", max_len_a=0, max_len_b=9)
    assert column.translate([line.encode()]) == [text]


def test_log_probabilities_are_those_of_the_form(tmp_path: Path, able: Path) -> None:
    import bytenmt

    run = bytenmt.Run(able)
    plain, formal, informal = (
        run.log_probabilities(["a b"], ["c d"], formality=form) for form in (None, *FORMS)
    )
    assert len({plain[0], formal[0], informal[0]}) == 3
    with pytest.raises(SettingError, match=NEEDS_MODEL):
        bytenmt.Run(make_run(tmp_path / "plain")).log_probabilities(["a"], ["b"], "formal")


VERBS = {"go": "geh", "see": "schau", "come": "komm", "ask": "frag", "stay": "bleib"}


@pytest.mark.slow
def test_a_model_learns_to_obey(tmp_path: Path) -> None:
    """Of each line there are two translations: without the byte either may come."""
    for name, sides in {
        "src": [f"{verb} now" for verb in VERBS for _ in FORMS],
        "tgt": [f"{stem}{form}" for stem in VERBS.values() for form in ("st du", "en Sie")],
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in sides), encoding="utf-8")
    files = PairFiles(tmp_path / "src", tmp_path / "tgt")
    settings = "data.formality=0.8 model.d_hidden=48 model.d_embedding=24 model.dropout=0"
    limits = "train.max_updates=250 train.lr=0.01 train.valid_every=250"
    run = tmp_path / "run"
    train(run, config("luong", settings, limits), files=[files], valid=files, device=CPU, threads=1)
    for form, ending in (("informal", "st du"), ("formal", "en Sie")):
        translator = Translator.load(run, formality=form, device="cpu", max_len_b=20)
        translations = translator.translate([f"{verb} now" for verb in VERBS])
        assert [text.endswith(ending) for text in translations] == [True] * len(VERBS)
