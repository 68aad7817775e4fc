"""Lines, repair and refusal, against a plain reading of the same bytes by Python.

Tests data/text_file.py (TextFile, read_bytes), data/corpus.py (ParallelCorpus) and
data/corpus_report.py (inventory, warnings_of_pairs).
"""

import gzip
import lzma
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import zstandard
from heard import Heard
from msgspec.structs import replace
from small_runs import CPU, config

from bytenmt.checkpoints.weights import read_run
from bytenmt.data import text_file as module
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.corpus_report import inventory, multi_sentence_share, warnings_of_pairs
from bytenmt.data.pair_files import PairFiles
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.model_summary import model_description
from bytenmt.errors import BytenmtError, DataError
from bytenmt.training.run import train


def expected_lines(content: bytes) -> tuple[list[bytes], list[int]]:
    """The lines after repair and the numbers of the repaired, in plain Python."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    raw = content.split(b"\n")
    unended = raw.pop()
    lines = [line.removesuffix(b"\r") for line in raw] + ([unended] if unended else [])
    repaired = [line.decode("utf-8", "replace").encode() for line in lines]
    pairs = zip(lines, repaired, strict=True)
    return repaired, [number for number, (old, new) in enumerate(pairs, 1) if old != new]


def check(content: bytes) -> None:
    text = TextFile.from_bytes(content, "x")
    lines, repaired = expected_lines(content)
    # One value each: of long lists pytest would write out the difference, which takes minutes.
    same_lines = list(text) == lines
    same_lengths = text.lengths.tolist() == [len(line) for line in lines]
    same_repaired = text.repaired.tolist() == repaired
    assert same_lines and same_lengths and same_repaired
    assert text.starts.dtype == np.int64 and text.lengths.dtype == np.int32
    assert text.data.dtype == np.uint8


CONTENTS = [
    b"", b"\n", b"a", b"a\n", b"a\n\n", b"\n\na", b"a\r\nb\r\n", b"\r\n\r\r\n\r", b"a\rb\n",
    b"\xef\xbb\xbf", b"\xef\xbb\xbfa\nb", b"\xef\xbb\xbf\n", b"a\n\xef\xbb\xbfb\n",
    b"\x00\n\x00\x00", b"\xe2\x82\n\x82\n", b"\xe2\x82\r\n\xac", b"a\xf0\x9f\x98", b"\xff\xfe\xfd",
]  # fmt: skip


@pytest.mark.parametrize("content", CONTENTS)
def test_lines(content: bytes) -> None:
    check(content)


PIECE_BYTES = 256  # that are scanned together in these tests


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", PIECE_BYTES)


PIECES = [
    b"\n", b"\r\n", b"\r", b"\x00", b"plain words ", b"x" * 60, "é".encode(), "한국어 ".encode(),
    "😀".encode(), b"\x0b", b"\x8a", b"\x09",
]  # fmt: skip
FAULTS = [
    b"\xff", b"\xe2\x82", b"\xf0\x9f", b"\x80", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80",
    b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xf5\x80\x80\x80", b"\xff\xbf\xbf\xbf", b"\xc3\n",
    b"\xe2\n\x82", b"\xf0\n\x82\x83", b"\xf0\x9f\n\x83",
]  # fmt: skip


@pytest.mark.parametrize("n_faults", [0, 1, 30])
def test_large_random_texts(n_faults: int) -> None:
    draw = random.Random(n_faults)
    for _ in range(25):
        pieces = draw.choices(PIECES[:-2], k=draw.randrange(6000))
        for _ in range(min(n_faults, len(pieces))):
            pieces.insert(draw.randrange(len(pieces)), draw.choice(FAULTS))
        check(b"".join(pieces))


def one_line(caught: pytest.ExceptionInfo[BytenmtError], *parts: object) -> None:
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message


PACKERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
PACKERS[".zst"] = zstandard.compress
LINES = b"\xef\xbb\xbfa\r\n\xff\nb"


@pytest.mark.parametrize("kind", PACKERS)
def test_packed_files(tmp_path: Path, kind: str) -> None:
    pack = PACKERS[kind]
    lines = [f"{i} {random.Random(i).randbytes(30).hex()}\n" for i in range(2000)]
    text = "".join(lines).encode()
    for number, parts in enumerate([[text], [b""], [b"a\n", b"", text, b"b"], [bytes(3_000_000)]]):
        path = tmp_path / f"{number}{kind}"
        path.write_bytes(b"".join(map(pack, parts)))
        content, pieces = b"".join(parts), b"".join(module.pieces_of(path, 1000))
        is_same = module.read_bytes(path).tobytes() == content == pieces
        assert is_same
    for name, content in ((f"lines{kind}", pack(LINES)), ("lines", LINES)):
        (tmp_path / name).write_bytes(content)
        assert list(TextFile.open(tmp_path / name)) == [b"a", "\ufffd".encode(), b"b"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    def refuse(path: Path, *parts: object) -> None:
        with pytest.raises(BytenmtError) as caught:
            TextFile.open(path)
        one_line(caught, path, *parts)

    files = {"text.bz2": (b"", "unpack it")}
    for kind, pack in PACKERS.items():
        packed = pack(random.Random(0).randbytes(5000))
        files[f"no{kind}"] = b"plain text, long enough to be no archive", "cannot be read"
        if kind != ".zst":  # whose library ends quietly
            files[f"bad{kind}"] = packed[:20] + b"\xff" * 50 + packed[70:-8], "cannot be read"
            files[f"cut{kind}"] = packed[:-3000], "cannot be read: Compressed file ended"
    refuse(tmp_path / "missing", "cannot be read: No such file")
    refuse(tmp_path, "cannot be read: Is a directory")
    for name, (content, part) in files.items():
        (tmp_path / name).write_bytes(content)
        refuse(tmp_path / name, part)


def pair_files(tmp_path: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    paths = tmp_path / "s.txt", tmp_path / "t.txt"
    for path, content in zip(paths, (source, target), strict=True):
        path.write_bytes(content)
    return paths


def open_pair(source: Path | None, target: Path, *limits: int) -> ParallelCorpus:
    return ParallelCorpus.open_all([PairFiles(source, target)], *limits)


def test_white_space_alone_is_no_target(tmp_path: Path) -> None:
    """White lines count as empty in the target, not in the source nor where lines are scored."""
    source, target = b"a\n \nc\nd\ne\n", " \t\nb\n \u3000\n d\n\r\r\n".encode()
    paths = pair_files(tmp_path, source, target)
    corpus = open_pair(*paths)
    assert corpus.lines.tolist() == [1, 3] and corpus.left_out[0].empty.tolist() == [0, 2, 4]
    first, second = map(TextFile.open, paths)
    assert len(ParallelCorpus.from_texts(first, second, keep_empty=True)) == 5


@pytest.mark.parametrize("target", ["\u3000", "\u200b", "\ufeff", "\u00a0\u2003", "\u3000\u200b"])
def test_a_target_that_nobody_sees_is_no_target(target: str, tmp_path: Path) -> None:
    """White space of any script, and zero-width characters; the same before a letter are text."""
    text = f"{target}\n{target}a\nb{target}\n"
    corpus = open_pair(*pair_files(tmp_path, b"a\nb\nc\n", text.encode()))
    assert corpus.lines.tolist() == [1, 2] and corpus.left_out[0].empty.tolist() == [0]


@pytest.mark.parametrize(
    ("text", "encoding", "named"),
    [
        ("한국어 문장입니다.\n", "cp949", "ENCODING"),
        ("한국어 문장입니다.\n", "utf-16", "UTF-16"),
        ("One line.\n", "utf-16-le", "UTF-16"),
    ],
)
def test_another_encoding_is_refused(tmp_path: Path, text: str, encoding: str, named: str) -> None:
    path = tmp_path / "text"
    path.write_bytes((text * 30).encode(encoding))
    with pytest.raises(DataError) as caught:
        open_pair(path, path).require_pairs()
    one_line(caught, f"{path} is not UTF-8", f"`iconv -f {named} -t UTF-8`")
    path.write_bytes("한국어\n".encode() * 30 + b"ann\xe9e\n" * 29)
    TextFile.open(path).check_content()


def random_columns(draw: random.Random) -> list[bytes]:
    pieces = [*PIECES[3:-1], *FAULTS[:-4]]  # without line ends and tabs
    n_columns = draw.randrange(2, 5)
    return [b"".join(draw.choices(pieces, k=draw.randrange(4))) for _ in range(n_columns)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_tables(tmp_path: Path, end: bytes) -> None:
    """The columns of a table are what Python's split makes of its repaired lines."""
    draw = random.Random(5)
    rows = [[b""] if draw.randrange(9) == 0 else random_columns(draw) for _ in range(700)]
    path = tmp_path / "t.tsv"
    for n_rows in (0, 1, 2, 700):
        content = end.join(b"\t".join(row) for row in rows[:n_rows])
        path.write_bytes(b"\xef\xbb\xbf" + content + end)
        lines, repaired = expected_lines(content + end)
        columns = [(line.split(b"\t") + [b""])[:2] for line in lines]
        source, target = TextFile.open(path).split()
        same_source = list(source) == [column[0] for column in columns]
        same_target = list(target) == [column[1] for column in columns]
        same_lengths = target.lengths.tolist() == [len(column[1]) for column in columns]
        assert same_source and same_target and same_lengths and source.data is target.data
        assert source.repaired.tolist() == target.repaired.tolist() == repaired
        assert n_rows < 700 or len(repaired) > 100


def test_tables_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    for content, number in ((b"a\tb\n\r\n\nab\r\nc\td\n", 4), (b"a", 1), (b"a\tb\nc\xff\n\td", 2)):
        path.write_bytes(content)
        with pytest.raises(DataError) as caught:
            ParallelCorpus.open_all([PairFiles(tsv=path)])
        one_line(caught, f"{path}, line {number} has no tab: ")


def several(tmp_path: Path) -> list[PairFiles]:
    contents = {
        "a.en": b"one\n\nthree\n",
        "a.ko": "하나\n둘\n셋\n".encode(),
        "c.en": b"",
        "c.ko": b"",
    }
    contents |= {"b.tsv": b"x\ty\tz\n\n\xff\tzwei\nlonger\tw\n", "d.en": b"d\n", "d.ko": b"D\r\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "d.en.gz").write_bytes(gzip.compress(contents["d.en"]))
    return [
        PairFiles(tmp_path / "a.en", tmp_path / "a.ko"),
        PairFiles(tsv=tmp_path / "b.tsv", weight=0.5),
        PairFiles(tmp_path / "c.en", tmp_path / "c.ko", weight=3),
        PairFiles(tmp_path / "d.en.gz", tmp_path / "d.ko"),
    ]


def test_several_parts(tmp_path: Path) -> None:
    """Pair k of the corpus is the kept line of its part, with its lengths."""
    corpus = ParallelCorpus.open_all(several(tmp_path), max_source_bytes=5)
    assert corpus.bounds.tolist() == [0, 2, 4, 4, 5] and corpus.lines.tolist() == [0, 2, 0, 2, 0]
    assert corpus.bounds.dtype == np.int64 and corpus.lines.dtype == np.int32
    pairs = [(corpus.source(k), corpus.target(k)) for k in range(len(corpus))]
    texts = [tuple(text.decode() for text in pair) for pair in pairs]
    assert texts == [("one", "하나"), ("three", "셋"), ("x", "y"), ("\ufffd", "zwei"), ("d", "D")]
    assert corpus.source_lengths.tolist() == [len(source) for source, _ in pairs]
    assert corpus.target_lengths.tolist() == [len(target) for _, target in pairs]
    assert corpus.source_lengths.dtype == corpus.target_lengths.dtype == np.int32
    assert [part.weight for part in corpus.parts] == [1, 0.5, 3, 1] and corpus.has_source
    assert inventory(corpus) == [
        f"{tmp_path}/a.en and {tmp_path}/a.ko: 2 pairs, 8 source and 9 target bytes",
        "left out, empty: 1 (line 2)",
        f"{tmp_path}/b.tsv: 2 pairs, 4 source and 5 target bytes, weight 0.5",
        "left out, empty: 1 (line 2)",
        "left out, too long: 1 (line 4)",
        f"{tmp_path}/c.en and {tmp_path}/c.ko: 0 pairs, 0 source and 0 target bytes, weight 3",
        f"{tmp_path}/d.en.gz and {tmp_path}/d.ko: 1 pairs, 1 source and 1 target bytes",
    ]
    (tmp_path / "b.tsv").write_bytes(b"\t\n" * 2)
    told = inventory(ParallelCorpus.open_all([PairFiles(tsv=tmp_path / "b.tsv")]))
    assert told[1] == "left out, empty: 2 (lines 1, 2)"
    with pytest.raises(DataError, match="c.en is empty"):
        corpus.require_pairs()


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    files = several(tmp_path)
    for weight in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError):
            ParallelCorpus.open_all([replace(files[0], weight=weight)])
    for wrong in ([], [*files, PairFiles(tgt=tmp_path / "d.ko")]):
        with pytest.raises(DataError, match="all with a source or all without"):
            ParallelCorpus.open_all(wrong)
    alone = ParallelCorpus.open_all([PairFiles(tgt=tmp_path / name) for name in ("a.ko", "d.ko")])
    assert not alone.has_source and alone.target(3) == b"D"
    assert alone.source_lengths.tolist() == [0] * 4


@pytest.mark.parametrize(
    ("keep_empty", "paired", "long", "empty"),
    [(False, [0, 6], [1, 2], [3, 4, 5]), (True, [0, 5, 6], [1, 2, 3, 4], [])],
)
def test_pairs_are_sorted_out(
    keep_empty: bool, paired: list[int], long: list[int], empty: list[int]
) -> None:
    """Each side has its limit; what is empty and too long counts as empty."""
    sides = [3, 4, 3, 0, 9, 0, 1], [2, 2, 3, 9, 0, 0, 1]
    texts = [TextFile.from_bytes(b"".join(b"a" * n + b"\n" for n in side), "x") for side in sides]
    corpus = ParallelCorpus.from_texts(texts[0], texts[1], 3, 2, keep_empty)
    assert corpus.lines.tolist() == paired and corpus.lines.dtype == np.int32
    assert [left.tolist() for left in corpus.left_out[0]] == [long, empty]
    assert corpus.source_lengths.tolist() == [sides[0][k] for k in paired]
    assert corpus.target_lengths.tolist() == [sides[1][k] for k in paired]


def test_corpora_that_cannot_be_used(tmp_path: Path) -> None:
    for source, target, parts in (
        (b"a\nb\n", b"a\n", ["s.txt has 2 lines", "t.txt has 1"]),
        (b"", b"", ["s.txt is empty: "]),
        (b"a\naaa\n", b"\na\n", ["no pair is left of 2 lines (1 empty, 1 too long)"]),
    ):
        paths = pair_files(tmp_path, source, target)
        with pytest.raises(BytenmtError) as caught:
            open_pair(*paths, 2, 2).require_pairs()
        one_line(caught, *parts)
    open_pair(*paths).require_pairs()
    all_kept = open_pair(paths[0], paths[0])  # nothing is copied
    assert all_kept.target_lengths is all_kept.tgt.lengths


# ---- what a run tells of its texts

WORDS = (("red", "old", "big"), ("cat", "dog", "sun"), ("sat", "ran"))
ENGLISH = list(map(" ".join, product(*WORDS)))
KOREAN = list(
    map(" ".join, product(("빨강", "헌", "큰"), ("고양이", "개", "해"), ("앉다", "뛰다")))
)


def corpus_of(source: list[str], target: list[str]) -> ParallelCorpus:
    texts = [TextFile.from_bytes("\n".join(lines).encode(), "x") for lines in (source, target)]
    return ParallelCorpus.from_texts(texts[0], texts[1])


def test_pairs_that_look_wrong() -> None:
    """Each mistake has its one line, and what is right has none; duplicates count above a fifth."""
    training, valid = corpus_of(ENGLISH[:12], KOREAN[:12]), corpus_of(ENGLISH[12:], KOREAN[12:])
    assert list(warnings_of_pairs(training, valid)) == []
    broken, whole = (TextFile.from_bytes(text, "broken") for text in (b"a\nb\xff\n", b"c\nd\n"))
    (repaired,) = warnings_of_pairs(ParallelCorpus.from_texts(broken, whole), valid)
    assert repaired == "broken: 1 of 2 lines are not UTF-8 and were repaired (U+FFFD)"
    (seen,) = warnings_of_pairs(training, training)
    assert seen.startswith("12 of 12 validation pairs")
    more = corpus_of(ENGLISH[:12] * 9 + ENGLISH[14:15], KOREAN[:12] * 9 + KOREAN[14:15])
    (repeated, seen) = warnings_of_pairs(more, valid)
    assert repeated.startswith("96 of the first 109 training pairs repeat others")
    assert seen.startswith("1 of 6 validation pairs")
    for n_copies, is_told in ((2, False), (3, True)):
        targets = [f"{k % 2}" for k in range(8)]  # repeated, but with another source
        own = corpus_of([*map(str, range(8)), *["7"] * n_copies], [*targets, *["1"] * n_copies])
        told = ["3 of the first 11 training pairs repeat others: remove duplicates"]
        assert list(warnings_of_pairs(own, valid)) == told * is_told


def test_the_share_counts_parts_by_their_weight(tmp_path: Path) -> None:
    a, b = pair_files(tmp_path, b"One. Two.\nOne.\n", b"One.\n" * 2)
    corpus = ParallelCorpus.open_all([PairFiles(a, b), PairFiles(b, a, weight=3.0)])
    assert multi_sentence_share(corpus) == 1 / 8
    assert multi_sentence_share(ParallelCorpus.open_all([PairFiles(tgt=a)])) == 0.5


def test_a_run_tells_of_them(tmp_path: Path) -> None:
    """Warnings are said; the share of lines with several sentences is in the
    facts of the weights and in the output of `info`."""
    lines = [line + "! One more." * (i % 4 == 0) for i, line in enumerate(ENGLISH)]
    source, target = ("\n".join(side).encode() for side in (lines, KOREAN))
    heard, own, run = Heard(), PairFiles(*pair_files(tmp_path, source, target)), tmp_path / "run"
    wanted = config("luong", "train.max_updates=1")
    train(run, wanted, files=[own], valid=own, device=CPU, reporter=heard)
    assert sum("warning: 18 of 18 validation pairs" in line for line in heard.lines) == 1
    assert read_run(run)[1].facts.multi_sentence_share == pytest.approx(5 / 18, abs=1e-6)
    assert "of the training lines hold several" in model_description(str(run), None)
