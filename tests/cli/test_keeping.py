"""translate --keep, --keep-pattern and --glossary, and the same of a Translator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from made_up_engine import made_up_translator, make_run

from bytenmt.cli.main import main
from bytenmt.decoding.constraints.constraint_spec import LIMIT, PLACEMENT, UNMET, ConstraintSpec
from bytenmt.decoding.translator import Translator
from bytenmt.errors import SettingError

LINES = ["%s개의 <b>{name}</b> 서버", "", "see http://a.b/c. A server", "plain"]
KEEP = "placeholders,tags,urls"
SHORT = ["--max-len-a", "1", "--max-len-b", "9", "--engine", "torch"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of random weights, a text and a table of terms."""
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run")
    (tmp_path / "src").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (tmp_path / "terms").write_text("server\tServer|Dienst\n서버\tServer\nplain\t!x\n", encoding="utf-8")
    return tmp_path


def invoke(*options: str) -> Result:
    return CliRunner().invoke(main, ["translate", "run", "-i", "src", *SHORT, *options])


def json_records(*options: str) -> list[dict[str, object]]:
    result = invoke("--format", "jsonl", "--no-alignment", *options)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["-b", "3"], ["--sample"], ["-b", "3", "--no-repeat-ngram-size", "3"]])
def test_all_is_kept_line_by_line(place: Path, more: list[str]) -> None:
    rules = ConstraintSpec.from_settings(KEEP, glossary=place / "terms")
    assert rules is not None
    result = invoke("--keep", KEEP, "--glossary", "terms", *more)
    assert result.exit_code == 0 and result.stderr == ""
    texts = result.stdout.split("\n")[:-1]
    assert len(texts) == len(LINES) and texts[1] == ""
    assert all(rules.is_met(line.encode(), text.encode()) for line, text in zip(LINES, texts, strict=True))
    records = json_records("--keep", KEEP, "--glossary", "terms", *more)
    assert [record["text"] for record in records] == texts
    assert records[1]["flags"] == [] and records[0]["flags"] in ([], [LIMIT], [PLACEMENT])


def test_without_them_nothing_is_told(place: Path) -> None:
    assert not any({LIMIT, UNMET} & {*record["flags"]} for record in json_records())  # type: ignore[misc]


def test_a_pattern_of_ones_own(place: Path) -> None:
    texts = invoke("--keep-pattern", "[A-Z] [a-z]+", "--keep-pattern", "가|개의").stdout.splitlines()
    assert "A server" in texts[2] and "개의" in texts[0]


def test_what_cannot_be_is_told_once(place: Path) -> None:
    """One warning for the line, and it is translated all the same."""
    (place / "terms").write_text("plain\tschlicht\nplain\t!schlicht\n", encoding="utf-8")
    result = invoke("--glossary", "terms")
    assert result.exit_code == 0 and len(result.stdout.splitlines()) == len(LINES)
    assert (
        len(result.stderr.splitlines()) == 1
        and "src, line 4: the translation does not meet all constraints" in result.stderr
    )
    assert UNMET in json_records("--glossary", "terms")[3]["flags"]  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--keep", "dates"], "'dates' is not a class of spans: expected placeholders, tags"),
        (["--keep-pattern", "a*"], "the pattern 'a*' cannot be kept: it matches the empty text"),
        (["--keep-pattern", "z" * 2000], "z…' cannot be kept: it is too large: give shorter repetitions"),
        (["--keep-pattern", "\udcff"], "--keep-pattern is not UTF-8"),
        (["--glossary", "src"], "src, line 1: expected `term TAB target`"),
        (["--glossary", "none"], "none cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line(place: Path, options: list[str], why: str) -> None:
    result = invoke(*options)
    assert result.exit_code == 1 and result.stdout == ""
    assert why in result.stderr and len(result.stderr.splitlines()) == 1


def test_an_output_goes_on_with_the_same_alone(place: Path) -> None:
    (place / "src").write_bytes(b"plain\n" * 3)
    result = invoke("-o", "out", "--keep", "urls", "--glossary", "terms")
    assert result.exit_code == 0 and (place / "out").read_bytes().count(b"\n") == 3


def test_a_long_line_is_not_cut_in_a_span(place: Path) -> None:
    one = Translator.load(
        place / "run", engine="torch", keep="urls", max_source_bytes=10, max_len_a=0.0, max_len_b=4
    )
    line = "go to http://a.b/c/d/e/f now or never"
    pieces = [chunk.text for chunk, _ in one.batch([line.encode()]).parts(0)]
    assert b"http://a.b/c/d/e/f" in pieces and max(map(len, pieces)) == len("http://a.b/c/d/e/f")
    best = one.n_best(line)[0]  # the piece that is a URL is copied, so that the limit does not matter
    assert "http://a.b/c/d/e/f" in best.text and best.flags == ()


def test_a_translator_takes_them() -> None:
    admitted: list[list[object]] = []
    one = made_up_translator(admitted=admitted, keep=["urls"], keep_pattern="q+", max_len_b=0)  # type: ignore[arg-type]
    one.translate(["http://a.b qq"])
    assert [item.text for item in admitted[0][0].constraint.items] == [b"http://a.b", b"qq"]  # type: ignore[attr-defined]
    with pytest.raises(SettingError, match="not a class of spans"):
        made_up_translator(keep="nothing")
    with pytest.raises(SettingError, match=r"expected .*glossary, glossary_match, keep, keep_pattern"):
        made_up_translator(kept="urls")
