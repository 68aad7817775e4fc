"""Lines in, lines out: a valid line for each, in order, whatever comes or shares a batch."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from processes import job, results

from bytenmt import translate as module
from bytenmt.config import load_config
from bytenmt.corpus import TextFile
from bytenmt.distributed import ALONE, Group
from bytenmt.errors import DataError
from bytenmt.models import MODELS, build_model
from bytenmt.models.base import Model
from bytenmt.translate import Translator, cut

CPU = torch.device("cpu")
LONG = b"x" * 12_000 + b" " + "가나 다".encode() * 799 + b"\xff!" + b"z" * 7  # 20,000 bytes, repaired
KINDS = [
    b"",
    b"a plain line",
    b"dos\r",
    b"nul\0\0nul",
    b"\xff\xfe\x80 bytes",
    b"cut off \xec\x95",
    "오후 3시 40분".encode(),
    "\U0001f600 \u2028 \x85 \x0b\x0c".encode(),
    b"\r",
    b"\r\r",
    b"   ",
    b"\xef\xbb\xbf marked",
    b"\xed\xa0\x80 surrogate",
    b"\t",
]


def small_model(arch: str, seed: int = 0) -> Model[Any, Any]:
    """Random float64 weights, large enough that outputs differ and end at different lengths."""
    sizes = {
        "seq2seq": ["d_hidden=12"],
        "bahdanau": ["d_hidden=12", "d_attention=10", "d_maxout=8"],
        "luong": ["d_hidden=12"],
        "bytenet": ["d_channels=8", "n_sets=1", "dilations=[1,2]"],
        "convs2s": ["encoder_layers=[[8,3]]", "decoder_layers=[[8,3],[8,3]]"],
    }
    settings = [f"model.{size}" for size in [*sizes[arch], "d_embedding=8"]]
    torch.manual_seed(seed)
    model = build_model(load_config(arch, "tiny", "", settings).model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.6)
    return model.double().eval()


def make(arch: str = "luong", **options: Any) -> Translator:
    short: dict[str, Any] = {"max_len_a": 0.01, "max_len_b": 9}
    return Translator(small_model(arch), device=CPU, **{**short, **options})


def rubbish(n_lines: int = 200) -> bytes:
    """The lines of KINDS in a mix, one of 20,000 bytes, the last one without its newline."""
    draw = random.Random(3)
    lines = [draw.choice(KINDS) for _ in range(n_lines)]
    lines[n_lines // 2] = LONG
    lines[-1] = b"the end"
    return b"\n".join(lines)


def answers(translator: Translator, text: bytes, **options: Any) -> list[bytes]:
    output = io.BytesIO()
    translator.stream(io.BytesIO(text), output, **options)
    assert not output.getvalue() or output.getvalue().endswith(b"\n")
    return output.getvalue().split(b"\n")[:-1]


def texts(translator: Translator, lines: list[bytes]) -> list[bytes]:
    return [best.text for best in translator.translate(lines)]


@pytest.mark.parametrize("arch", MODELS)
def test_rubbish_gives_a_valid_line_for_each(arch: str) -> None:
    """200 lines of all that can be wrong with a text."""
    found = answers(make(arch), rubbish())
    assert len(found) == 200
    for line in found:
        line.decode("utf-8")
        assert b"\r" not in line
    sources = list(TextFile.from_bytes(rubbish(), "rubbish"))
    assert all(answer == b"" for answer, source in zip(found, sources, strict=True) if not source)
    assert sum(bool(line) for line in found) > 100, "a model that says nothing tests nothing"


def test_the_default_limits_take_a_longer_line() -> None:
    """Over 255 bytes of room: the automaton still holds."""
    for text in texts(make(max_len_a=3.0, max_len_b=100), [b"x" * 60, b"y" * 90]):
        text.decode("utf-8")


@pytest.mark.parametrize("arch", MODELS)
@pytest.mark.parametrize("beam", [1, 3])
def test_order_is_kept_and_batch_mates_change_nothing(arch: str, beam: int) -> None:
    """However the lines are batched, each one's answer is that of the line alone."""
    draw = random.Random(5)
    lines = [bytes(draw.choices(b"abcdef gh", k=draw.randrange(40))) for _ in range(25)]
    alone = [make(arch, beam=beam).n_best([line])[0] for line in lines]
    assert len({best[0].text for best in alone}) > 5, "equal answers would hide a wrong order"
    for max_tokens in (1, 150, 10_000):
        together = make(arch, beam=beam, max_tokens=max_tokens).n_best(lines)
        for mine, other in zip(alone, together, strict=True):
            assert [h.text for h in mine] == [h.text for h in other]
            for h, o in zip(mine, other, strict=True):
                assert h.log_probability == pytest.approx(o.log_probability, abs=1e-9)


@given(st.lists(st.binary(max_size=30)), st.integers(1, 200), st.integers(1, 3))
def test_batches_are_a_partition_under_the_budget(lines: list[bytes], max_tokens: int, beam: int) -> None:
    """Each text once; a batch over the budget is one text alone."""
    model = small_model("seq2seq")
    translator = Translator(model, device=CPU, beam=beam, max_tokens=max_tokens)
    batches = list(translator._batches(set(lines)))
    assert sorted(text for batch in batches for text in batch) == sorted(set(lines))
    for batch in batches:
        cost = len(batch) * beam * (max(map(len, batch)) + 1)
        assert batch and (cost <= max_tokens or len(batch) == 1)


@given(st.text(st.sampled_from("a 한é\U0001f600"), max_size=200), st.integers(4, 30))
def test_pieces_make_the_line(text: str, limit: int) -> None:
    """Nothing lost, no piece over the limit, no character cut, at a space where one is in reach."""
    line = text.encode()
    pieces = cut(line, limit)
    assert b"".join(piece.text + piece.joint for piece in pieces) == line
    for piece in pieces:
        assert len(piece.text) <= limit
        piece.text.decode("utf-8")
    start = 0
    for piece in pieces[:-1]:
        reach = line[start + 1 : start + limit + 1]
        assert piece.joint == (b" " if b" " in reach else b"")
        if not piece.joint:
            assert len(piece.text) > limit - 4
        start += len(piece.text + piece.joint)
    assert pieces[-1].joint == b""
    assert len(pieces) > 1 or len(line) <= limit


def test_a_long_line_is_the_join_of_its_pieces() -> None:
    """Joined with a space where it was cut at one, with nothing elsewhere."""
    translator = make(max_source_bytes=10)
    first, second, third, fourth = texts(translator, [b"one two", b"three", b"abcdefghij", b"kl"])
    assert texts(translator, [b"one two three"]) == [first + b" " + second]
    assert texts(translator, [b"three abcdefghijkl"]) == [second + b" " + third + fourth]


def test_a_joined_hypothesis_sums_its_pieces() -> None:
    translator = make(max_source_bytes=10, beam=3)
    parts = translator.n_best([b"one two", b"three"])
    joined = translator.n_best([b"one two three"])[0]
    assert len(joined) == min(map(len, parts))
    assert joined[0].log_probability == pytest.approx(sum(p[0].log_probability for p in parts))
    assert joined[1].text == parts[0][1].text + b" " + parts[1][1].text


def test_the_warning_names_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr for the long line, none for the others, also in a later buffer."""
    text = b"short\n" * 6 + b"a " * 100 + b"\nshort\n"
    answers(make(max_source_bytes=50), text, buffer_size=2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "standard input, line 7 has 200 bytes" in lines[0] and "4 pieces" in lines[0]


@pytest.mark.parametrize("factor, offset", [(0.5, 4), (0.0, 7), (2.0, 0), (0.0, 0)])
def test_the_output_limit(factor: float, offset: int) -> None:
    """At most a * |source| + b bytes, EOS of the source not counted; reached by some line."""
    lines = [bytes([byte]) * n for byte in b"abcde" for n in (1, 6, 11)]
    found = texts(make(max_len_a=factor, max_len_b=offset), lines)
    slack = [int(factor * len(s)) + offset - len(text) for s, text in zip(lines, found, strict=True)]
    assert min(slack) == 0


def refuse(*_: Any) -> NoReturn:
    raise AssertionError("the model was asked")


def test_an_empty_line_does_not_ask_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EagerStepper", refuse)
    assert texts(make(), [b"", b""]) == [b"", b""]
    assert answers(make(), b"\n\r\n") == [b"", b""]
    assert make().translate([]) == []


def test_equal_lines_are_translated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    class Counting(module.EagerStepper):
        def __init__(self, model: Any, src: Any, *rest: Any) -> None:
            rows.append(len(src))
            super().__init__(model, src, *rest)

    monkeypatch.setattr(module, "EagerStepper", Counting)
    found = texts(make(), [b"a", b"b", b"a", b"a"])
    assert rows == [2] and found[0] == found[2] == found[3]


@pytest.mark.parametrize("arch", MODELS)
def test_without_a_source_the_line_is_not_seen(arch: str) -> None:
    """A language model says the same whatever the line, an empty one included."""
    translator = make(arch, source=False, max_len_a=1.0)
    found = texts(translator, [b"a", b"", b"some other line"])
    assert len(set(found)) == 1
    assert len(found[0]) <= 9


@given(st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"ab", b"\xff", b"\xef\xbb\xbf", b"\0"])))
def test_stream_and_file_read_the_same_lines(parts: list[bytes]) -> None:
    """Line ends, a byte order mark and repairs as the corpus has them."""
    content = b"".join(parts)
    assume(content != b"\xef\xbb\xbf")  # a mark alone: no line of a file, one of a stream
    lines = [
        module._clean(line, "x", number, "replace") for number, line in enumerate(io.BytesIO(content), 1)
    ]
    assert lines == list(TextFile.from_bytes(content, "x"))


def test_stream_and_file_answer_the_same() -> None:
    """Whatever the buffer."""
    text = rubbish(30)
    output = io.BytesIO()
    make().translate_file(TextFile.from_bytes(text, "x"), output, buffer_size=7)
    assert output.getvalue().split(b"\n")[:-1] == answers(make(), text, buffer_size=4)


def test_strict_answers_what_came_before_and_names_the_byte() -> None:
    output = io.BytesIO()
    with pytest.raises(DataError, match=r"standard input, line 3, byte offset 4: 0xFF"):
        make().stream(io.BytesIO(b"one\ntwo\nbad \xff\nfour\n"), output, errors="strict")
    assert output.getvalue().count(b"\n") == 2


def test_a_failing_input_is_raised() -> None:
    class Failing(io.BytesIO):
        def __iter__(self) -> Iterator[bytes]:  # type: ignore[override]
            yield b"one\n"
            raise OSError(5, "Input/output error")

    output = io.BytesIO()
    with pytest.raises(OSError, match="Input/output"):
        make().stream(Failing(), output)
    assert output.getvalue().count(b"\n") == 1


def test_misuse_is_told() -> None:
    model = small_model("luong")
    for wrong in ({"max_source_bytes": 3}, {"beam": 0}, {"max_tokens": 0}):
        with pytest.raises(ValueError, match="expected at least"):
            Translator(model, device=CPU, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="training mode"):
        Translator(model.train(), device=CPU).translate([b"a"])


def random_lines(n_lines: int, seed: int = 7) -> list[bytes]:
    draw = random.Random(seed)
    return [bytes(draw.choices(b"abcdef gh", k=draw.randrange(40))) for _ in range(n_lines)]


def shared(group: Group, arch: str) -> dict[str, Any]:
    """A list, a stream and a file, in 32-bit numbers, in which batch mates do change the last bits."""
    rows: list[int] = []

    class Counting(module.EagerStepper):
        def __init__(self, model: Any, src: Any, *rest: Any) -> None:
            rows.append(len(src))
            super().__init__(model, src, *rest)

    options: dict[str, Any] = {"max_len_a": 0.01, "max_len_b": 9, "beam": 2, "max_tokens": 200}
    translator = Translator(small_model(arch).float(), device=CPU, group=group, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "EagerStepper", Counting)
        hypotheses = translator.n_best(random_lines(30))
    text = b"\n".join([*random_lines(20, 8), rubbish(12)])
    output = io.BytesIO()
    if group.leads:
        translator.stream(io.BytesIO(text), output, buffer_size=11)
        translator.translate_file(TextFile.from_bytes(text, "x"), output, buffer_size=9)
    else:
        translator.follow()
        translator.follow()
    return {"hypotheses": hypotheses, "rows": rows, "output": output.getvalue()}


@pytest.mark.parametrize("arch, size", [("luong", 2), ("convs2s", 3)])
def test_processes_answer_as_one(arch: str, size: int) -> None:
    """Every bit: the lists, their scores included, in all processes, and what the leading one writes;
    each computes its share, and no batch is computed twice."""
    alone = shared(ALONE, arch)
    found = results(shared, arch, size=size)
    assert len(alone["rows"]) > size, "a process without a batch tests nothing"
    assert [one["hypotheses"] == alone["hypotheses"] for one in found] == [True] * size
    assert [one["rows"] for one in found] == [alone["rows"][rank::size] for rank in range(size)]
    assert [one["output"] == alone["output"] for one in found] == [True] + [False] * (size - 1)
    assert alone["output"].count(b"\n") > 60 and not any(one["output"] for one in found[1:])


def one_by_one(group: Group, pause: float) -> bool:
    """A line comes when the one before it is answered; between them is a pause."""
    translator = Translator(small_model("luong"), device=CPU, group=group, max_len_b=9)
    output = io.BytesIO()

    class Asking(io.BytesIO):
        def __iter__(self) -> Iterator[bytes]:  # type: ignore[override]
            for n_answered, line in enumerate([b"one\n", b"two\n", b"three\n"]):
                time.sleep(pause)
                give_up = time.monotonic() + 20
                while output.getvalue().count(b"\n") < n_answered:
                    if time.monotonic() > give_up:
                        raise OSError(110, "no answer to the line before")
                    time.sleep(0.01)
                yield line

    if group.leads:
        translator.stream(Asking(), output)
    else:
        translator.follow()
    return output.getvalue().count(b"\n") == 3


def test_processes_answer_a_line_at_once() -> None:
    assert results(one_by_one, 0.0) == [True, False]


def patient(group: Group) -> bool:
    module.HEARTBEAT = 0.2  # the process is this test's own
    return one_by_one(group, 1.2)


def test_processes_wait_for_a_late_line() -> None:
    """However long: longer than the time after which a silent process counts as lost."""
    assert results(patient, timeout=0.8) == [True, False]


class _Closed(io.BytesIO):
    def write(self, _: Any) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def failing(group: Group, closed: bool) -> None:
    translator = Translator(small_model("luong"), device=CPU, group=group, max_len_b=9)
    if group.leads:
        output = _Closed() if closed else io.BytesIO()
        try:
            translator.stream(io.BytesIO(b"one\ntwo\nbad \xff\n"), output, errors="strict")
        finally:
            assert closed or output.getvalue().count(b"\n") == 2
    else:
        translator.follow()


@pytest.mark.parametrize("closed", [False, True])
def test_an_error_of_the_leading_process_ends_all(closed: bool) -> None:
    """An input that cannot be read, an output that nobody reads: one message, the others leave quietly."""
    leading, following = job(failing, closed)
    assert isinstance(leading.error, BrokenPipeError if closed else DataError)
    assert isinstance(following.error, SystemExit) and following.error.code == 1


def test_only_the_leading_process_reads() -> None:
    following = make(group=Group(1, 2))
    with pytest.raises(ValueError, match="the others follow"):
        following.stream(io.BytesIO(b"one\n"), io.BytesIO())
    with pytest.raises(ValueError, match="the others follow"):
        following.translate_file(TextFile.from_bytes(b"one\n", "x"), io.BytesIO())
    with pytest.raises(ValueError, match="nobody to follow"):
        make().follow()
