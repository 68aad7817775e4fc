"""The search under constraints, compiled and as Python: over made-up distributions, and random models."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from functools import partial
from itertools import product
from typing import Any

import naive_constraints
import numpy as np
import pytest
import torch
from cpu_engines import model, packed
from hypothesis import given
from hypothesis import strategies as st
from made_up import (
    Distribution,
    FakeAttentiveDecoder,
    FakeDecoder,
    everything,
    few_bytes,
    random_distribution,
)
from rotation import rotated

from bytenmt.decoding.constraints.constraint import Constraint
from bytenmt.decoding.constraints.constraint_spec import LIMIT, PLACEMENT, UNMET, ConstraintSpec
from bytenmt.decoding.constraints.glossary import Glossary, Term
from bytenmt.decoding.constraints.span_tracker import SpanTracker
from bytenmt.decoding.cpu.compiled_search import compiled_search_step
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.numpy_kernels import numpy_interpreter
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode
from bytenmt.decoding.search.candidates import share_width
from bytenmt.jit import as_python
from bytenmt.spans.grammar import CLASSES
from tools.verify.spans import naive_spans, random_line

CPU = torch.device("cpu")
N_AS_PYTHON = 16  # requests for which the search as Python must agree with the compiled one
TERMS = Glossary.from_terms(
    [Term("word", ("가나", "cat"), ("다",)), Term("a b", ("5 b 6.1 c",), ()), Term("x", (), ("y",))]
)
RULES = ConstraintSpec(tuple(CLASSES), glossary=TERMS)
PARTS = [
    *("{name}", "{}", "{}", "%s", "%d", "<b>", "</b>", "<i>", "</i>", "<br>", '<a href="q">', "</a>", "<b>"),
    *("http://a.b", "http://a.b/c", "5", "50", "5.5,0", "a@b.cd", " ", " ", "word", "a b", "x", "가", "한"),
]
SEARCHES = {
    "greedy": {},
    "beam": {"beam": 4, "n_best": 4},
    "sample": {"sample": True, "beam": 2, "n_best": 2, "temperature": 1.5},
    "guarded": {"beam": 3, "n_best": 2, "no_repeat_ngram_size": 2},
}


def options(search: str, tracker: SpanTracker = RULES.tracker) -> Options:
    return Options(**SEARCHES[search], tracker=tracker)  # type: ignore[arg-type]


def some_sources(n: int, seed: int = 0) -> list[bytes]:
    draw = random.Random(seed)
    return ["".join(draw.choices(PARTS, k=draw.randrange(10))).encode() for _ in range(n)]


def some_requests(
    n: int, rules: ConstraintSpec = RULES, prefixes: bool = False, seed: int = 0
) -> list[Request]:
    """Return requests with short, medium and long limits; some have a prefix."""
    draw = random.Random(seed)
    models = []
    for number, source in enumerate(some_sources(n, seed)):
        prefix = draw.choice([b"", "가".encode(), b"x {", b"{name} "]) if prefixes else b""
        limit = max(draw.choice([0, 20, 60]), len(prefix))
        models.append(rules.add_constraint(Request(source, limit, prefix, number)))
    return models


def numbered(requests: list[Request]) -> list[Request]:
    """Return numbered requests for engines whose source selects the distribution of a sentence."""
    return [request._replace(source=b"%d" % i) for i, request in enumerate(requests)]


def compiled(models: list[Distribution], how: Options, capacity: int) -> TorchEngine:
    """An engine whose search is compiled; without that it is Python."""
    return TorchEngine([FakeDecoder(models)], how, capacity, CPU, search=compiled_search_step())


def run(engine: Any, requests: list[Request]) -> list[list[Hypothesis]]:
    results = dict(decode(engine, requests))
    return [results[i] for i in range(len(requests))]


def check_kept(
    requests: list[Request], results: list[list[Hypothesis]], rules: ConstraintSpec = RULES
) -> None:
    for request, hypotheses in zip(requests, results, strict=True):
        for one in hypotheses:
            one.text.decode()
            assert len(one.text) <= request.limit
            assert one.text.startswith(request.prefix)
            assert UNMET not in rules.flags(request, one.text), (request, one.text)
            for sign in b"" if request.prefix else request.constraint.reserved_bytes:
                assert one.text.count(sign) == (request.source or b"").count(sign), (request, one.text)


def distributions(n: int) -> list[Distribution]:
    """Return distributions that end early, late, or never by themselves."""
    return [random_distribution(i, end=(0.0, 6.0, -50.0)[i % 3]) for i in range(n)]


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
def test_whatever_the_model_thinks_all_is_kept_and_the_searches_agree(search: str) -> None:
    """Spans once, tags in order, terms present, what is forbidden not: in both engines' searches."""
    requests, models = some_requests(36), distributions(36)
    results = run(compiled(models, options(search), 100), numbered(requests))
    check_kept(requests, results)
    asked = numbered(requests)[:N_AS_PYTHON]
    other = run(TorchEngine([FakeDecoder(models)], options(search), 100, CPU), asked)
    assert [[one.text for one in of] for of in other] == [
        [one.text for one in of] for of in results[: len(asked)]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_hostile_lines_lose_nothing_in_silence(search: str) -> None:
    """Halves of spans in the source and in what the model likes to write; tools/verify/kept_spans.py does it
    at length, with the compiled engine."""
    draw, rules = random.Random(8), ConstraintSpec(CLASSES)
    lines = [random_line(draw) for _ in range(12)]
    requests = [rules.add_constraint(Request(line.encode(), len(line.encode()) + 60)) for line in lines]
    models = [few_bytes(i, b'<>{}%$@/:.5a s="', end=-1.0, floor=-9.0) for i in range(len(lines))]
    results = run(compiled(models, options(search, rules.tracker), 24), numbered(requests))
    asked = numbered(requests)[: N_AS_PYTHON // 4]
    other = run(TorchEngine([FakeDecoder(models)], options(search, rules.tracker), 24, CPU), asked)
    assert [[one.text for one in of] for of in other] == [
        [one.text for one in of] for of in results[: len(asked)]
    ]
    n_unmet = 0
    for line, request, hypotheses in zip(lines, requests, results, strict=True):
        for one in hypotheses:
            unmet = UNMET in rules.flags(request, one.text)
            n_unmet += unmet
            kept, written = (
                Counter(text[begin:end] for begin, end, _ in naive_spans(text, CLASSES))
                for text in (line, one.text.decode())
            )
            assert unmet or kept == written, (line, one.text)
    assert n_unmet <= 2


@pytest.mark.slow
def test_fed_in_turns_and_by_a_graph_it_is_the_same() -> None:
    requests, models = some_requests(12, prefixes=True, seed=3), distributions(12)
    form, graph = compiled_search_step(), partial(CudaGraphEngine, capture=lambda step: step)
    for search in ("greedy", "beam"):
        expected = run(compiled(models, options(search), 12), numbered(requests))
        for engine in (
            compiled(models, options(search), 3),
            graph([FakeDecoder(models)], options(search), 3, CPU, search=form),
        ):
            assert [[one.text for one in of] for of in run(engine, numbered(requests))] == [
                [one.text for one in of] for of in expected
            ]


def nested(text: bytes) -> bool:
    """Do the tags of a text close in order?"""
    open_: list[bytes] = []
    for begin, end, _ in ConstraintSpec(("tags",)).tracker.extractor.spans(text):
        tag = text[begin:end]
        if tag.startswith(b"</"):
            if not open_ or open_.pop() != tag[2:-1]:
                return False
        elif tag != b"<br>":
            open_.append(tag[1:-1].split()[0])
    return not open_


@pytest.mark.slow
def test_tags_nest_and_close_in_order() -> None:
    """Tags nest as in the source; elements side by side may come in any order."""
    rules = ConstraintSpec(("tags",))
    sources = [b"<b>x<i>y</i>z</b> <u>q</u> <b>s<br></b>", b"<i></i><b><b><u></u></b></b>"]
    orders = set()
    for seed in range(6):
        requests = [rules.add_constraint(Request(source, 90)) for source in sources]
        models = [few_bytes(2 * seed + i, b"<>/biur ", end=-1.0) for i in range(2)]
        for search in ("greedy", "beam", "sample"):
            results = run(compiled(models, options(search, rules.tracker), 9), numbered(requests))
            check_kept(requests, results, rules)
            assert all(nested(one.text) for of in results for one in of)
            orders |= {rules.kept_spans(one.text)[0] for one in results[0]}
    assert len(orders) > 1, "always in the order of the source: nothing has been tried"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_all_texts_that_keep_is_found(seed: int) -> None:
    """A beam that holds everything finds the best of all texts, by trying all; spans are told by hand."""
    rules = ConstraintSpec((), ("y+",))
    log_p = few_bytes(seed, b"y,;", end=-1.0, floor=-40.0)  # a blank before what comes last, too
    limit, source = 6, (b"y,yy", b"y", b";")[seed % 3]

    def spans(text: bytes) -> list[bytes]:
        return sorted(part for part in text.replace(b";", b",").split(b",") if part)

    everything_ = everything(log_p, b"y,;", limit)
    keeping = {text: p for text, p in everything_.items() if spans(text) == spans(source)}
    # Where room gets short the rest is written out: texts that need all of it are not tried.
    roomy = [p for text, p in keeping.items() if len(text) <= limit - len(spans(source))]
    searched = Options(beam=900, length_penalty=0.0, tracker=rules.tracker)
    request = rules.add_constraint(Request(source, limit))
    (results,) = run(compiled([log_p], searched, 1), numbered([request]))
    assert results[0].text in keeping
    assert keeping[results[0].text] == pytest.approx(results[0].log_probability)
    assert max(roomy) - 1e-5 <= results[0].log_probability <= max(keeping.values()) + 1e-5


def sure_of(text: bytes, p: float = 0.9) -> Distribution:
    """This text has most of the probability, wherever it was left."""

    def log_p(prefix: bytes) -> np.ndarray:
        rest = np.full(256, (1 - p) / 255)
        rest[[*text, 255][min(len(prefix), len(text))]] = p
        return np.log(rest)

    return log_p


def greedily(
    rules: ConstraintSpec, source: bytes, log_p: Distribution, limit: int = 40, prefix: bytes = b""
) -> bytes:
    request = rules.add_constraint(Request(source, limit, prefix))
    engine = TorchEngine([FakeDecoder([log_p])], Options(tracker=rules.tracker), 1, CPU)
    return run(engine, numbered([request]))[0][0].text


def test_a_model_that_copies_is_left_alone() -> None:
    text = "한 {name}: http://a.b/c, <b>hi {n}</b> 5%.".encode()
    assert greedily(RULES, text, sure_of(text), 60) == text


def test_plain_text_writes_no_span() -> None:
    """Neither one that the source lacks, nor one more, nor two that merge."""
    rules = ConstraintSpec(("numbers", "placeholders"))
    assert not rules.kept_spans(greedily(rules, b"a", sure_of(b"b {x} 7 c")))
    assert rules.kept_spans(greedily(rules, b"5", sure_of(b"5 and 5"))) == [b"5"]
    assert sorted(rules.kept_spans(greedily(rules, b"5 7", sure_of(b"57 x")))) == [b"5", b"7"]


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
def test_what_begins_like_a_span_to_keep_and_is_a_span_itself_is_written_on(search: str) -> None:
    """Both searches: of 3.1 the 3 alone would be one more number; so would the 5 of a term's form."""
    rules = ConstraintSpec(("numbers",), glossary=Glossary.from_terms([Term("term", ("5 b 6.1 c",), ())]))
    sources = [b"a 3.1", b"3.1 3.2", b"1,000.5", b"term", b"3 3.1"]
    for seed in range(2):
        requests = [rules.add_constraint(Request(source, 40)) for source in sources]
        models = [few_bytes(9 * seed + i, b"356.1, bc0", end=-2.0, floor=-9.0) for i in range(len(sources))]
        asked, how = numbered(requests), options(search, rules.tracker)
        check_kept(requests, run(TorchEngine([FakeDecoder(models)], how, 9, CPU), asked), rules)
        check_kept(requests, run(compiled(models, how, 9), asked), rules)


def test_the_rest_is_written_out_in_order_and_the_limit_yields() -> None:
    rules = ConstraintSpec(("placeholders",))
    asked = rules.add_constraint(Request(b"{b} {a} {c}", 4))
    text = greedily(rules, b"{b} {a} {c}", sure_of(b"x" * 99), 4)
    assert asked.limit == 12 and rules.kept_spans(text) == [b"{b}", b"{a}", b"{c}"]
    assert rules.flags(asked, text) == (LIMIT,)
    text = greedily(rules, b"{b} {a} {c}", sure_of(b"x" * 99), 30)
    assert rules.kept_spans(text) == [b"{b}", b"{a}", b"{c}"] and text.startswith(b"x" * 18)
    assert len(text) <= 30


def test_kept_bytes_outrank_control_characters() -> None:
    rules = ConstraintSpec((), (r"\x01[a-z]+\x02",))
    source = b"a \x01bc\x02 d"
    assert b"\x01bc\x02" in greedily(rules, source, sure_of(b"x"))
    assert b"\x01" not in greedily(rules, b"a", sure_of(source))


def test_no_letter_stands_behind_a_conversion() -> None:
    """A letter after a conversion would make it another one; a letter of two bytes is refused at its first
    byte.
    """
    rules = ConstraintSpec(("placeholders",))
    for text in ("%st3", "Ge%selbst2", "%süß"):
        results = greedily(rules, b"%s x", sure_of(text.encode()))
        assert rules.kept_spans(results) == [b"%s"] and not rules.is_met(b"%s x", text.encode())


def test_what_begins_like_a_span_and_is_none_leaves_the_others() -> None:
    """An unclosed brace, an unclosed tag and the beginning of an address, as free text and beside spans."""
    for line in (
        "{5 apples and 3 pears",
        "see a<b and http://a.b/c?d=e now",
        "COVID-19, 555-1234",
        "20 %5 b",
    ):
        results = greedily(ConstraintSpec(CLASSES), line.encode(), sure_of(line.encode()), 90)
        assert results == line.encode()


def test_terms_stand_and_forbidden_ones_do_not() -> None:
    def rules(target: str, *forbidden: str) -> ConstraintSpec:
        return ConstraintSpec(
            glossary=Glossary.from_terms([Term("server", tuple(target.split("|")), forbidden)])
        )

    assert greedily(rules("cat"), b"a server", sure_of(b"the cat sat")) == b"the cat sat"
    assert greedily(rules("cat|dog"), b"a server", sure_of(b"a dog")) == b"a dog"
    assert greedily(rules("cat"), b"a server", sure_of(b"Cat is")) == b"Cat is"
    assert greedily(rules("cat"), b"a server", sure_of(b"category")) != b"category"
    assert greedily(rules("cat"), b"a cup", sure_of(b"some category")) == b"some category"
    assert greedily(rules("서버"), b"a server", sure_of("서버를 켠다".encode())) == "서버를 켠다".encode()
    strict = rules("cat", "dog")
    assert strict.is_met(b"a server", greedily(strict, b"a server", sure_of(b"a cat, a dog sat")))
    assert b"dogma" in greedily(rules("cat", "dog"), b"server", sure_of(b"cat dogma"))


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ['<a href="', "http://", "<b> {", "<a href='x' ", "5", "a@"])
def test_a_prefix_may_leave_a_span_open(prefix: str) -> None:
    """The required rest follows the prefix, under a limit that leaves just enough room."""
    requests = [RULES.add_constraint(Request(b"<b>{x} http://a.b</b> 5", 0, prefix.encode()))] * 3
    requests = [r._replace(limit=r.limit - (i == 2)) for i, r in enumerate(requests)]
    models = distributions(3)
    for search in ("greedy", "beam"):
        results = run(TorchEngine([FakeDecoder(models)], options(search), 9, CPU), numbered(requests))
        other = run(compiled(models, options(search), 9), numbered(requests))
        assert [[one.text for one in of] for of in other] == [[one.text for one in of] for of in results]
        for hypotheses in results[:2]:
            assert all(part in hypotheses[0].text for part in (b"<b>", b"{x}", b"http://a.b", b"</b>", b"5"))


def test_contradictions_lose_nothing() -> None:
    """A term that is required and forbidden is there; it is told."""
    rules = ConstraintSpec(glossary=Glossary.from_terms([Term("a", ("서버",), ("서버",))]))
    text = greedily(rules, b"a", sure_of(b"the dog"))
    assert "서버".encode() in text
    assert UNMET in rules.flags(rules.add_constraint(Request(b"a", 40)), text)
    assert greedily(rules, b"a", sure_of(b"x"), prefix=b"dog ").startswith(b"dog ")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=4, max_size=12))
def test_the_width_is_shared_among_the_banks(candidates: list[tuple[int, int]]) -> None:
    """The best of each number of constraints, then the second best of each, and so on."""
    n = len(candidates)
    by_bank = [[i for i, (b, _) in enumerate(candidates) if b == bank] for bank in range(4)]
    best, index = np.full((4, n), -np.inf), np.zeros((4, n), np.int64)
    for bank, members in enumerate(by_bank):
        members.sort(key=lambda i: candidates[i][1])
        best[bank, : len(members)] = [-float(candidates[i][1]) for i in members]
        index[bank, : len(members)] = members
    ranking, number = np.zeros(4), np.zeros(4, np.int64)
    share = as_python(share_width)
    n_found = share(best[:, :4], index[:, :4], np.minimum([*map(len, by_bank)], 4), ranking, number, 0)
    results = number[:n_found].tolist()
    ranks = {}
    for i, (bank, score) in enumerate(candidates):
        before = [(s, j) for j, (b, s) in enumerate(candidates) if b == bank and (s, j) < (score, i)]
        ranks[i] = (len(before), score, i)
    assert results == sorted(range(len(candidates)), key=ranks.__getitem__)[:4]


# ---- random models


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "search"), rotated(["bytenet", "convs2s", "luong", "bahdanau"], list(SEARCHES), 1)
)
def test_random_models_keep_all_in_the_compiled_engine(name: str, search: str) -> None:
    """Results equal those of the PyTorch engine up to rounding; alone and in a batch they are equal to the
    bit.
    """
    requests = some_requests(14, seed=5)
    engine = NumbaEngine([packed(model(name))], options(search), 7)
    results = run(engine, requests)
    check_kept(requests, results)
    other = run(TorchEngine([model(name)], options(search), 30, CPU), requests)
    check_kept(requests, other)
    same = sum(a[0].text == b[0].text for a, b in zip(results, other, strict=True))
    assert same >= 13
    assert run(NumbaEngine([packed(model(name))], options(search), 14), requests) == results


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
def test_the_search_as_python_keeps_the_same(search: str) -> None:
    """Above kernels in NumPy; prefixes, and limits that leave no room, among the requests."""
    requests, of = some_requests(8, prefixes=True), packed(model("bahdanau"))
    results = run(NumbaEngine([of], options(search), 5, run=numpy_interpreter()), requests)
    expected = run(NumbaEngine([of], options(search), 5), requests)
    assert [[h.text for h in of] for of in results] == [[h.text for h in of] for of in expected]


@pytest.mark.slow
def test_without_constraints_a_tracker_of_nothing_changes_nothing() -> None:
    """An extractor that finds nothing forbids nothing."""
    requests, models = [Request(b"%d" % i, 20, number=i) for i in range(6)], distributions(6)
    nothing = ConstraintSpec((), ("\x01\x02\x03",)).tracker
    for search in SEARCHES:
        expected = run(TorchEngine([FakeDecoder(models)], Options(**SEARCHES[search]), 4, CPU), requests)  # type: ignore[arg-type]
        found = run(TorchEngine([FakeDecoder(models)], options(search, nothing), 4, CPU), requests)
        # is_past_end is recorded only under constraints.
        assert [[one._replace(is_past_end=False) for one in of] for of in found] == expected


def test_a_constraint_is_a_value() -> None:
    """Equal lines are translated once."""
    one, other = (RULES.add_constraint(Request(b"{x} word", 9)) for _ in range(2))
    assert one == other and hash(one) == hash(other) and isinstance(one.constraint, Constraint)


def test_all_alternatives_of_a_term_can_be_written() -> None:
    """The model chooses among the alternatives."""
    rules = ConstraintSpec(glossary=Glossary.from_terms([Term("a", ("bx", "cx"), ())]))
    seen = set()
    for seed, end in product(range(8), (0.0, 3.0)):
        text = greedily(rules, b"a", few_bytes(seed, b"bcx ", end=end))
        seen |= {form for form in (b"bx", b"cx", b"Bx", b"Cx") if form in text}
    assert {b"bx", b"cx"} <= seen


def test_what_is_owed_comes_where_the_text_would_end() -> None:
    """Long before the limit, and not flagged."""
    rules = ConstraintSpec(("placeholders", "urls"))
    asked = rules.add_constraint(Request(b"{x} http://a.b", 99))
    text = greedily(rules, b"{x} http://a.b", sure_of(b"well"), 99)
    assert text.startswith(b"well") and rules.kept_spans(text) == [b"{x}", b"http://a.b"] and len(text) < 24
    assert rules.flags(asked, text) == ()


@pytest.mark.parametrize("search", ["greedy", "beam"])
@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("It is good.", "It is good. Eimer {x}"),
        ("It is good. ", "It is good. Eimer {x}"),
        ("<b>It</b> is good", "<b>It</b> is good Eimer {x}"),
        ("좋다", "좋다 Eimer {x}"),
        ("", "Eimer {x}"),
    ],
)
def test_what_is_owed_at_the_end_stands_behind_a_blank(search: str, text: str, whole: str) -> None:
    """But tags do not, and none comes where one is there already."""
    rules = ConstraintSpec(
        ("placeholders", "tags"), glossary=Glossary.from_terms([Term("bucket", ("Eimer",), ())])
    )
    source = b"<b>bucket</b> {x}" if "<" in text else b"bucket {x}"
    request = rules.add_constraint(Request(source, 60))
    how, models = options(search, rules.tracker), [sure_of(text.encode(), 0.999)]
    asked = numbered([request, rules.add_constraint(Request(b"<br>", 60))])
    both = [*models, *models]
    results, tagged = run(TorchEngine([FakeDecoder(both)], how, 2, CPU), asked)
    assert results[0].text.decode() == whole
    assert "<b>" in text or tagged[0].text.decode() == f"{text}<br>"


def test_greedy_search_takes_what_is_owed_where_it_is_nearly_the_best() -> None:
    rules = ConstraintSpec(("placeholders",))

    def nearly(p: float) -> Distribution:
        def log_p(prefix: bytes) -> np.ndarray:
            rest = np.full(256, 0.0001)
            rest[ord("a") if len(prefix) < 9 else 255] = 0.9
            rest[ord("{")] = p
            return np.log(rest / rest.sum())

        return log_p

    assert greedily(rules, b"{x}", nearly(0.2)).startswith(b"{x}a")
    assert greedily(rules, b"{x}", nearly(0.05)).startswith(b"aaaaaaaaa {x}")


@pytest.mark.slow
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_span_begins_where_the_attention_lies_on_it(is_compiled: bool) -> None:
    """Though the model itself would never write it; without attention it comes at the end, which is flagged
    where text follows it in the source."""
    rules, text = ConstraintSpec(("tags",)), b"ab cd ef"
    source = b"0 <b>x</b> y"

    def attention(prefix: bytes) -> np.ndarray:
        weights = np.full(len(source) + 1, 0.01, np.float32)
        plain = prefix.replace(b"<b>", b"").replace(b"</b>", b"")
        weights[{3: slice(2, 5), 5: slice(6, 10)}.get(len(plain), slice(11, 12))] = 1.0
        return weights

    def log_p(prefix: bytes) -> np.ndarray:
        rest = np.full(256, 1e-9)
        plain = prefix.replace(b"<b>", b"").replace(b"</b>", b"")
        if text.startswith(plain):  # else inside a tag
            rest[[*text, 255][len(plain)]] = 0.9
        return np.log(rest / rest.sum())

    form = compiled_search_step() if is_compiled else None
    how = Options(beam=4, n_best=4, tracker=rules.tracker)
    for decoder, expected, flags in (
        (FakeAttentiveDecoder([log_p], attention), b"ab <b>cd</b> ef", ()),
        (FakeDecoder([log_p]), b"ab cd ef<b></b>", (PLACEMENT,)),
    ):
        request = rules.add_constraint(Request(source, 60))._replace(source=b"0".ljust(len(source)))
        (results,) = run(TorchEngine([decoder], how, 1, CPU, search=form), [request])
        best, told = results[0], request._replace(source=source)
        assert best.text == expected and rules.flags(told, best.text, best.is_past_end) == flags
    last = rules.add_constraint(Request(b"x <b>y</b>", 60))
    assert rules.flags(last, b"ab cd ef<b></b>", is_past_end=True) == (PLACEMENT,)
    assert rules.flags(last, b"ab cd <b>ef</b>", is_past_end=True) == ()


@pytest.mark.parametrize(
    ("source", "text", "is_flagged"),
    [
        ("%s is open", "geöffnet: %s", True),
        ("open %s now", "jetzt „%s“.", True),
        ("now open %s", "jetzt %s", False),
        ("connect to %s", "Verbindung fehlgeschlagen. %s", True),
        ("copy it to “%s”?", "kopieren? %s", True),
        ("It failed. %s", "Fehlgeschlagen! %s", False),
        ("No “%s”. %s", "Kein „%s“ da. %s", False),
        ("<b>Web site:</b>", "<b>Webseite.</b>", False),
        ("<b>a</b> b", "B <b>A</b>", False),
        ("<b>a</b> b", "A B<b></b>", True),
        ("%d of %d left", "noch %d von %d", True),
        ("%d of %d", "%d von %d", False),
    ],
)
def test_a_span_at_the_end_is_flagged(source: str, text: str, is_flagged: bool) -> None:
    """A span at the end that is not there in the source, or that stands after a sentence, though the model
    wrote it itself."""
    rules = ConstraintSpec(("placeholders", "tags"))
    request = rules.add_constraint(Request(source.encode(), 100))
    assert rules.flags(request, text.encode()) == (PLACEMENT,) * is_flagged


@pytest.mark.parametrize(
    ("source", "text", "is_flagged"),
    [
        ("Press <b>OK</b> now", "<b></b>Nun OK drücken", True),
        ("Press <b>OK</b> now", "Nun <b>OK</b> drücken", False),
        ("Press <b>%s</b> now", "Nun <b>%s</b> drücken", False),
        ("<b>a</b> or <b>b</b>", "<b>a</b> oder <b> </b> b", True),
        ("<b><i>a</i></b> b", "<b><i></i>A</b> B", True),
        ("<b><i>a</i></b> b", "<b><i>A</i></b> B", False),
        ("<b>a</b> <i></i> b", "<b>A</b> <i></i> B", False),
        ("a <br> b", "A <br> B", False),
    ],
)
def test_an_element_that_has_lost_its_words_is_flagged(source: str, text: str, is_flagged: bool) -> None:
    rules = ConstraintSpec(("placeholders", "tags"))
    request = rules.add_constraint(Request(source.encode(), 100))
    assert rules.flags(request, text.encode()) == (PLACEMENT,) * is_flagged


def test_a_term_that_is_begun_too_early_does_not_win() -> None:
    """Its first byte is nearly as likely at the beginning, and the rest of it is not: the text in which it
    stands where it belongs is better, by its log-probability, than the one that begins with it."""
    rules = ConstraintSpec((), glossary=Glossary.from_terms([Term("x", ("Dok",), ())]))
    text = b"so Dok"

    def log_p(prefix: bytes) -> np.ndarray:
        rest = np.full(256, 1e-4)
        if text.startswith(prefix):
            rest[[*text, 255][len(prefix)]] = 0.3
            rest[ord("D")] = max(rest[ord("D")], 0.2)
        else:
            rest[[ord("!"), 255][b"!" in prefix]] = 0.9
        return np.log(rest / rest.sum())

    request = rules.add_constraint(Request(b"x", 40))
    searched = Options(beam=4, n_best=4, tracker=rules.tracker)
    (results,) = run(TorchEngine([FakeDecoder([log_p])], searched, 1, CPU), numbered([request]))
    assert results[0].text == text and all(b"Dok" in one.text for one in results)
    assert results[0].score == results[0].log_probability / (len(text) + 1)


def test_beams_do_not_go_on_to_put_off_what_is_owed() -> None:
    """Required text costs many nats at any position; a complete text is not prolonged by it."""
    rules = ConstraintSpec(("placeholders", "urls"))
    request = rules.add_constraint(Request(b"{x} http://a.b", 99))
    searched = Options(beam=4, n_best=4, tracker=rules.tracker)
    engine = TorchEngine([FakeDecoder([sure_of(b"well", 0.99)])], searched, 1, CPU)
    (results,) = run(engine, numbered([request]))
    check_kept([request], [results], rules)
    assert results[0].text.startswith(b"well") and len(results[0].text) < 24
    assert results[0].score > results[0].log_probability / (len(results[0].text) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("is_compiled", [False, True])
@given(
    seed=st.integers(0, 10_000),
    source=st.sampled_from([b"y", b"yy,y", b"y;yyy", b"yy yy,y", b";"]),
    limit=st.integers(0, 14),
    end=st.sampled_from([-3.0, 0.0, 3.0]),
    beam=st.integers(1, 4),
    length_penalty=st.sampled_from([0.0, 1.0]),
    attends=st.booleans(),
)
def test_it_is_the_constrained_search_in_plain_lists(
    is_compiled: bool,
    seed: int,
    source: bytes,
    limit: int,
    end: float,
    beam: int,
    length_penalty: float,
    attends: bool,
) -> None:
    """A search of strings, which shares no code with the package, finds the same texts and scores."""
    rules = ConstraintSpec((), ("y+",))
    full = few_bytes(seed, naive_constraints.ALPHABET, end=end)

    def log_p(prefix: bytes) -> np.ndarray:
        return full(prefix).astype(np.float32).astype(np.float64)

    def attention(prefix: bytes) -> np.ndarray:
        """Most of it on one byte, or as much on two."""
        weights = np.zeros(len(source) + 1, np.float32)
        for place in np.random.default_rng(zlib.crc32(prefix, seed)).integers(0, len(weights), 2):
            weights[place] += 0.5
        return weights

    request = rules.add_constraint(Request(source, limit))._replace(source=b"0".ljust(len(source)))
    how = Options(beam=beam, length_penalty=length_penalty, tracker=rules.tracker)
    form = compiled_search_step() if is_compiled else None
    decoder = FakeAttentiveDecoder([log_p], attention) if attends else FakeDecoder([log_p])
    (results,) = run(TorchEngine([decoder], how, 1, CPU, search=form), [request])
    if beam == 1:
        text, total = naive_constraints.naive_greedy(log_p, source, request.limit)
    else:
        text, total, score = naive_constraints.naive_beam(
            log_p, source, request.limit, beam, length_penalty, attention if attends else None
        )[0]
        assert results[0].score == pytest.approx(score, abs=1e-5)
    assert results[0].text == text and results[0].log_probability == pytest.approx(total, abs=1e-5)
