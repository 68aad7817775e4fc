"""Lines, repair and refusal, against a plain reading of the same bytes by Python."""

import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from bytenmt import textfile as corpus_module
from bytenmt.corpus import ParallelCorpus, TextFile
from bytenmt.errors import BytenmtError
from bytenmt.scan import CHUNK


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
    assert text.data.dtype == text.side.dtype == np.uint8


@pytest.mark.parametrize(
    "content, lines",
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\n\n", [b"a", b""]),
        (b"\n\na", [b"", b"", b"a"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\r\n\r\r\n\r", [b"", b"\r", b"\r"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbfa\nb", [b"a", b"b"]),
        (b"\xef\xbb\xbf\n", [b""]),
        (b"a\n\xef\xbb\xbfb\n", [b"a", b"\xef\xbb\xbfb"]),
        (b"\x00\n\x00\x00", [b"\x00", b"\x00\x00"]),
        (b"\xe2\x82\n\x82\n", [b"\xef\xbf\xbd", b"\xef\xbf\xbd"]),
        (b"\xe2\x82\r\n\xac", [b"\xef\xbf\xbd", b"\xef\xbf\xbd"]),
        (b"a\xf0\x9f\x98", [b"a\xef\xbf\xbd"]),
        (b"\xff\xfe\xfd", [b"\xef\xbf\xbd" * 3]),
    ],
)
def test_lines(tmp_path: Path, content: bytes, lines: list[bytes]) -> None:
    plain, packed = tmp_path / "text", tmp_path / "text.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    assert list(TextFile.open(plain)) == lines
    assert list(TextFile.open(packed)) == lines
    check(content)


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


@pytest.mark.parametrize("fault", [*FAULTS, "한".encode(), "😀".encode(), b"\n", b"\r\n"])
def test_chunk_borders(fault: bytes) -> None:
    """Every alignment of a piece to the borders of chunks, of words and of the file."""
    for around in (0, CHUNK, 2 * CHUNK, 3 * CHUNK):
        for place in range(max(0, around - 5), around + 3):
            check(b"a" * place + fault)
            check(b"a" * place + fault + b"b" * (2 * CHUNK + 3))
            check("é".encode() * (place // 2) + fault + b"\n" + b"b" * CHUNK)
            check((b"line\n" * CHUNK)[:place] + fault + b"\nb" * CHUNK)


def test_empty_lines_only() -> None:
    """Each byte is a line end: more lines than the scan makes room for at first."""
    check(b"\n" * (5 * CHUNK + 3))
    check(b"\r\n" * (5 * CHUNK) + b"z")


def test_neighbours_of_newline_are_no_newline() -> None:
    """The search by words must not carry from a newline into 0x0B beside it, nor see 0x8A."""
    for neighbour in (b"\x0b", b"\x09", b"\x8a", b"\x00", b"\xff"):
        check((b"\n" + neighbour + neighbour + b"\n") * 50)
        check((neighbour + b"\n") * 70)


@pytest.mark.parametrize("damage", ["mistakes", "suspicious", "carriage return"])
def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    true_scan, true_invalid = corpus_module.scan_lines, corpus_module.invalid_lines
    content = b"a\r\n" * CHUNK + b"\xff\n" + b"b\n" * CHUNK
    check(content)
    if damage == "mistakes":
        monkeypatch.setattr(corpus_module, "invalid_lines", lambda *a: true_invalid(*a)[:0])
    elif damage == "suspicious":
        monkeypatch.setattr(
            corpus_module, "scan_lines", lambda *a: (*true_scan(*a)[:2], np.zeros(9, np.bool_))
        )
    else:
        monkeypatch.setattr(
            corpus_module, "scan_lines", lambda *a: (lambda s, n, c: (s, n + 1, c))(*true_scan(*a))
        )
    with pytest.raises(AssertionError):
        check(content)


def test_clean_chunks_are_not_suspected() -> None:
    """Else every line would be checked byte by byte, which is right but slow."""
    for content in ("한국어\n".encode() * 5 * CHUNK, b"plain\n" * 5 * CHUNK):
        data = np.frombuffer(content, np.uint8)
        suspicious = corpus_module.scan_lines(data)[2]
        assert np.flatnonzero(suspicious).tolist() == [0, 1, len(content) // CHUNK]


@pytest.mark.parametrize(
    "content, line, offset",
    [
        (b"\xff", 1, 0),
        (b"ab\ncaf\xe9\n\xff\n", 2, 3),
        (b"ok\r\nab\xe2\x82\r\nok\n", 2, 2),
        (b"\xef\xbb\xbfab\xc3", 1, 2),
        ("한국\n".encode() * 3000 + b"ab\xed\xa0\x80\n" + b"x\n" * 3000, 3001, 2),
    ],
)
def test_strict_names_the_place(tmp_path: Path, content: bytes, line: int, offset: int) -> None:
    path = tmp_path / "broken.txt"
    path.write_bytes(content)
    with pytest.raises(BytenmtError) as caught:
        TextFile.open(path, errors="strict")
    assert str(caught.value).startswith(f"{path}, line {line}, byte offset {offset}: ")
    assert TextFile.open(path).n_repaired >= 1


def test_strict_takes_valid_text() -> None:
    assert list(TextFile.from_bytes("é\n한".encode(), "x", "strict")) == [
        "é".encode(),
        "한".encode(),
    ]
    with pytest.raises(ValueError, match="ignore"):
        TextFile.from_bytes(b"", "x", "ignore")


def test_plain_file_is_mapped_and_read_only(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"abc\n")
    text = TextFile.open(path)
    assert isinstance(text.data.base, np.memmap)
    assert not text.data.flags.writeable and not text.side.flags.writeable


def one_line(caught: pytest.ExceptionInfo[BytenmtError], *parts: object) -> None:
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    def refuse(path: Path, *parts: object) -> None:
        with pytest.raises(BytenmtError) as caught:
            TextFile.open(path)
        one_line(caught, path, *parts)

    packed = gzip.compress(random.Random(0).randbytes(5000))
    files = {
        "cut.gz": (packed[:-3000], "cut off"),
        "no.gz": (b"plain text", "no sound .gz"),
        "bad.gz": (packed[:-8] + b"\0" * 8, "no sound .gz"),
        "bad2.gz": (packed[:10] + b"\xff" * 50 + packed[60:], "no sound .gz"),
        "text.bz2": (b"", "unpack it"),
    }
    refuse(tmp_path / "missing", "does not exist")
    refuse(tmp_path, "is a directory")
    refuse(Path("/dev/null"), "no regular file")
    for name, (content, part) in files.items():
        (tmp_path / name).write_bytes(content)
        refuse(tmp_path / name, part)


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_rights(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "text"
    path.write_bytes(b"a\n")
    monkeypatch.setattr(corpus_module.np, "memmap", no_rights)
    with pytest.raises(BytenmtError) as caught:
        TextFile.open(path)
    one_line(caught, path, "Permission denied")


def pair_files(tmp_path: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    paths = tmp_path / "s.txt", tmp_path / "t.txt"
    for path, content in zip(paths, (source, target), strict=True):
        path.write_bytes(content)
    return paths


def test_parallel_corpus(tmp_path: Path) -> None:
    source = b"four\n\nabcdef\nab\xff\nx\nabcde\n"
    target = b"uno\ntwo, and too long\nxx\nabcd\n\r\nabcdefgh\n"
    paths = pair_files(tmp_path, source, target)
    corpus = ParallelCorpus.open(*paths, "replace", 5, 8)
    assert corpus.lines.tolist() == [0, 3, 5] and len(corpus) == 3
    assert corpus.source_lengths.tolist() == [4, 5, 5]
    assert corpus.target_lengths.tolist() == [3, 4, 8]
    assert corpus.left_out[0].too_long.tolist() == [2] and corpus.left_out[0].empty.tolist() == [1, 4]
    assert corpus.report() == [
        f"{paths[0]} and {paths[1]}: 3 pairs",
        "source: 14 bytes, longest line 5",
        "target: 15 bytes, longest line 8",
        "left out, longer than 5 source or 8 target bytes: 1 (line 3)",
        "left out, empty: 2 (lines 2, 5)",
        f"repaired, not UTF-8 in {paths[0]}: 1 (line 4)",
    ]
    assert ParallelCorpus.open(*paths, "replace", 4, 8).left_out[0].too_long.tolist() == [2, 3, 5]
    assert ParallelCorpus.open(*paths, "replace", 5, 7).left_out[0].too_long.tolist() == [2, 5]
    assert ParallelCorpus.open(*paths).lines.tolist() == [0, 2, 3, 5]
    with pytest.raises(BytenmtError):
        ParallelCorpus.open(*paths, "strict")


def test_corpus_without_source(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"abc\n\nde\nabcdef")
    corpus = ParallelCorpus.open(None, path, max_source_bytes=1, max_target_bytes=5)
    assert corpus.src is None and corpus.lines.tolist() == [0, 2]
    assert corpus.source_lengths.tolist() == [0, 0]
    assert corpus.target_lengths.tolist() == [3, 2]
    assert corpus.left_out[0].too_long.tolist() == [3] and corpus.left_out[0].empty.tolist() == [1]
    assert corpus.report()[1:3] == [
        "target: 5 bytes, longest line 3",
        "left out, longer than 5 target bytes: 1 (line 4)",
    ]


def test_report_names_ten_lines(tmp_path: Path) -> None:
    corpus = ParallelCorpus.open(*pair_files(tmp_path, b"\n" * 1012 + b"a\n", b"b\n" * 1013))
    numbers = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"
    assert corpus.report()[-1] == f"left out, empty: 1,012 (lines {numbers} and 1,002 more)"


def test_corpora_that_cannot_be_used(tmp_path: Path) -> None:
    paths = pair_files(tmp_path, b"a\nb\n", b"a\n")
    with pytest.raises(BytenmtError) as caught:
        ParallelCorpus.open(*paths)
    one_line(caught, paths[0], "has 2 lines", paths[1], "has 1")
    paths = pair_files(tmp_path, b"", b"")
    with pytest.raises(BytenmtError) as caught:
        ParallelCorpus.open(*paths).require_pairs()
    assert str(caught.value).startswith(f"{paths[0]} is empty: ")
    with pytest.raises(BytenmtError, match="is empty: "):
        TextFile.open(paths[1]).require_lines()
    with pytest.raises(BytenmtError, match="of 2 lines none is left .1 empty, 1 too long."):
        paths = pair_files(tmp_path, b"a\naaa\n", b"\na\n")
        ParallelCorpus.open(*paths, "replace", 2, 2).require_pairs()
    ParallelCorpus.open(*paths).require_pairs()
