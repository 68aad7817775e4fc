"""The Korean-English sample: the files as generated, one to one, split by value, and its scorer."""

import re
import unicodedata
from pathlib import Path

import pytest

from tools.sample import make, score

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
SIDES = {"train": 20_000, "valid": 500, "test": 500}


@pytest.fixture(scope="module")
def sample():
    return make.make_sample()


def read(name: str) -> list[str]:
    return (DATA / name).read_bytes().decode().removesuffix("\n").split("\n")


@pytest.mark.slow
def test_files_are_what_the_tool_writes(sample, tmp_path):
    make.write_sample(sample, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in DATA.iterdir()} - {"README.md", "models"}
    for name in names:
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes(), name


@pytest.mark.parametrize(("side", "count"), SIDES.items())
def test_lines_are_short_clean_unicode(side, count):
    suffixes = ("ko", "en") if side == "train" else ("ko", "en", "family")
    for suffix in suffixes:
        data = (DATA / f"{side}.{suffix}").read_bytes()
        assert data.endswith(b"\n") and data.count(b"\n") == count
        text = data.decode()
        assert unicodedata.is_normalized("NFC", text)
        for line in text.removesuffix("\n").split("\n"):
            assert line.isprintable() and line == line.strip() != ""
            assert len(line.encode()) <= 60


def test_one_to_one_over_all_sets():
    korean = [line for side in SIDES for line in read(f"{side}.ko")]
    english = [line for side in SIDES for line in read(f"{side}.en")]
    total = sum(SIDES.values())
    assert len(korean) == len(set(korean)) == len(english) == len(set(english)) == total


@pytest.mark.slow
def test_no_value_of_a_held_out_set_occurs_in_training(sample):
    values = {side: {value for p in pairs for value in p.values} for side, pairs in sample.items()}
    assert not values["train"] & values["test"]
    assert not values["train"] & values["valid"]
    assert not values["valid"] & values["test"]
    assert all(pair.values for pairs in sample.values() for pair in pairs)


def values_in_digits(line: str) -> set[tuple[str, ...]]:
    """The years, days and clock times that a Korean line writes in digits, read back from it."""
    found = {("year", year) for year in re.findall(r"(\d{4})(?:년|\. )", line)}
    found |= {("day", *day) for day in re.findall(r"(\d+)(?:월 |\. )(\d+)(?:일|\.)", line)}
    for half, hour, minute in re.findall(r"(오전 |오후 |)(\d+)(?:시(?!간)|:)(?: ?(\d+))?", line):
        full = int(hour) % 12 + 12 * (half == "오후 ") if half else int(hour)
        found.add(("time", f"{full}:{int(minute or 0):02}"))
    return found


@pytest.mark.slow
def test_no_held_out_date_or_time_is_written_in_training():
    """The split is verified on the text itself instead of the recorded values."""
    kinds = {"year", "day", "time"}
    found = {side: set().union(*map(values_in_digits, read(f"{side}.ko"))) for side in SIDES}
    assert all({value[0] for value in values} == kinds for values in found.values())
    assert not found["train"] & (found["valid"] | found["test"])
    assert not found["valid"] & found["test"]


def test_every_family_is_in_every_held_out_set():
    for side in ("valid", "test"):
        families = read(f"{side}.family")
        assert set(families) == {form.family for form in make.FORMS}
        assert min(families.count(family) for family in set(families)) >= 20


GOLDEN = {
    "clock12": [
        ((15, 40), "오후 3시 40분", "3:40 p.m."),
        ((0, 5), "오전 12시 5분", "12:05 a.m."),
        ((12, 0), "오후 12시", "12 p.m."),
    ],
    "clock24": [((15, 40), "15시 40분", "15:40"), ((9, 0), "9시", "9:00")],
    "clock_words": [
        ((15, 40), "오후 세 시 사십 분", "three forty in the afternoon"),
        ((19, 30), "저녁 일곱 시 반", "half past seven in the evening"),
        ((3, 5), "새벽 세 시 오 분", "three oh five before dawn"),
    ],
    "clock_before": [((15, 40), "오후 네 시 이십 분 전", "twenty to four in the afternoon")],
    "clock_range": [((9, 0, 18, 30), "오전 9시부터 오후 6시 30분까지", "from 9 a.m. to 6:30 p.m.")],
    "day_weekday": [((2026, 3, 1), "2026년 3월 1일 일요일", "Sunday, March 1, 2026")],
    "day_short": [((2026, 11, 21), "2026. 11. 21.(토)", "Sat 21 Nov 2026")],
    "day_words": [
        ((6, 21), "유월 이십일일", "the twenty-first of June"),
        ((10, 9), "시월 구일", "the ninth of October"),
        ((11, 30), "십일월 삼십일", "the thirtieth of November"),
    ],
    "day_year_words": [((2026, 1, 2), "이천이십육 년 일월 이일", "the second of January 2026")],
    "day_clock_year": [
        (
            (2026, 11, 21, 15, 40),
            "2026년 11월 21일 오후 3시 40분",
            "3:40 p.m. on November 21, 2026",
        )
    ],
    "number_words": [
        ((12_500,), "만 이천오백", "twelve thousand five hundred"),
        ((1111,), "천백십일", "one thousand one hundred eleven"),
        ((30_040,), "삼만 사십", "thirty thousand forty"),
    ],
    "number_myriads": [((35_000,), "3만 5천 ", "35,000"), ((12_500,), "1만 2500", "12,500")],
    "won_words": [
        ((12_500,), "만 이천오백 원", "12,500 won"),
        ((110_000,), "십일만 원", "110,000 won"),
    ],
    "won_myriads": [
        ((35_000,), "3만 5천 원", "₩35,000"),
        ((1_234_000,), "123만 4천 원", "₩1,234,000"),
        ((10_050,), "1만 50원", "₩10,050"),
        ((200_000,), "20만 원", "₩200,000"),
    ],
    "won_digits": [((12_500,), "12,500원", "KRW 12,500")],
    "dollars": [((12, 5), "12달러 5센트", "$12.05"), ((3, 0), "3달러", "$3.00")],
    "span": [((2, 30), "2시간 30분", "2 hours 30 minutes"), ((1, 0), "1시간", "1 hour")],
    "span_words": [
        ((2, 30), "두 시간 반", "two and a half hours"),
        ((20, 1), "스무 시간 일 분", "twenty hours and one minute"),
        ((0, 45), "사십오 분", "forty-five minutes"),
    ],
    "decimal_words": [
        ((125,), "십이 점 오 ", "twelve point five"),
        ((1000,), "백 ", "one hundred"),
    ],
}


@pytest.mark.parametrize("name", GOLDEN)
def test_forms_against_lines_written_by_hand(name):
    for value, korean, english in GOLDEN[name]:
        assert getattr(make, name)(*value) == (korean, english)


def test_native_numerals_and_ordinals():
    assert [make.native(n) for n in (1, 20, 25, 99)] == ["한", "스무", "스물다섯", "아흔아홉"]
    assert [make.ordinal(n) for n in (12, 20, 23)] == ["twelfth", "twentieth", "twenty-third"]


def test_nobody_writes_some_forms():
    assert make.clock_words(12, 0) is None
    assert make.clock_range(18, 0, 9, 0) is None
    assert make.won_myriads(9000) is None


@pytest.mark.slow
def test_copying_the_nearest_pair_is_no_answer(sample):
    train = [(pair.korean, pair.english) for pair in sample["train"]]
    test = [(pair.korean, pair.english) for pair in sample["test"][:100]]
    assert make.baseline(train, test) < 10
    assert make.baseline(train + test, test) == 100  # it does find what is there


def test_scorer(tmp_path, capsys):
    columns = {"hyp": "a\nb\nx\n", "ref": "a\nb\nc\n", "family": "time\ndate\ndate\n"}
    for name, text in columns.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    paths = [str(tmp_path / name) for name in columns]
    assert score.main(paths) == 0
    assert capsys.readouterr().out == (
        "family  right  lines  exact match\n"
        "date        1      2       50.0 %\n"
        "time        1      1      100.0 %\n"
        "exact match: 66.7 %\n"
    )
    (tmp_path / "hyp").write_text("a\nb\n", encoding="utf-8")
    assert score.main(paths) == 1
    assert score.main([*paths[:2], str(tmp_path / "none")]) == 1
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 2
