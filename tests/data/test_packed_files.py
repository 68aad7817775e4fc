"""Packed files: what is in them comes out, and what is no sound archive is told in one line."""

import gzip
import lzma
import random
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from bytenmt.data.text_file import PACKED_PIECE, TextFile, pieces_of, read_bytes
from bytenmt.errors import DataError

zstandard = pytest.importorskip("zstandard")
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lambda content: lzma.compress(content, preset=0),
    ".zst": zstandard.compress,
}
KINDS = sorted(PACKERS)
# More than one piece, packed too; words and noise, so that there is something to damage.
TEXT = b"".join(b"%d %s\n" % (i, random.Random(i).randbytes(30).hex().encode()) for i in range(2000))


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def content_of(path: Path) -> bytes:
    content = read_bytes(path).tobytes()
    assert content == b"".join(pieces_of(path))
    return content


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_packed_comes_out(tmp_path: Path, kind: str) -> None:
    """One stream and several, empty ones among them; zeros between and behind them."""
    pack = PACKERS[kind]
    assert len(pack(TEXT)) > 3 * PACKED_PIECE
    texts = [[TEXT], [b""], [b"a\n", b"", TEXT, b"b"], [bytes(3_000_000)], [b"x"] * 200]
    for number, parts in enumerate(texts):
        path = write(tmp_path / f"{number}{kind}", b"".join(map(pack, parts)))
        same = content_of(path) == b"".join(parts)
        assert same
        padding = b"".join(pack(part) + bytes(4) for part in parts)
        same = content_of(write(tmp_path / f"padded{number}{kind}", padding)) == b"".join(parts)
        assert same
    lines = write(tmp_path / f"lines{kind}", pack(b"\xef\xbb\xbfa\r\n\xff\nb"))
    assert list(TextFile.open(lines)) == [b"a", "\ufffd".encode(), b"b"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_take_little_memory(tmp_path: Path, kind: str) -> None:
    """Also with a file that is packed a thousandfold."""
    dense = write(tmp_path / f"dense{kind}", PACKERS[kind](bytes(200_000_000)))
    tracemalloc.start()
    assert sum(map(len, pieces_of(dense))) == 200_000_000
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 75_000_000


def test_other_frames_of_zst(tmp_path: Path) -> None:
    """A frame without its size, one with a checksum, one that is to be skipped."""
    skipped = bytes.fromhex("502a4d1805000000") + b"12345"
    unsized = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(b"ab")
    path = write(tmp_path / "a.zst", skipped + unsized + skipped + zstandard.compress(b"cd") + skipped)
    assert content_of(path) == b"abcd"


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_archives(tmp_path: Path, kind: str) -> None:
    """Cut off anywhere, or changed: one line that names the file."""
    packed = PACKERS[kind](TEXT)
    if kind == ".zst":
        packed = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
    half = len(packed) // 2
    damaged = {
        "truncated": [b"", packed[:1], packed[:7], packed[:half], packed[:-1], packed + packed[:half]],
        "damaged or not": [
            b"plain text, long enough to be no archive at all\n",
            packed[:half] + bytes(100) + packed[half + 100 :],
            packed + b"plain text, long enough to be no archive at all\n",
            packed[:half] + packed[half + 1 :] + b"0",
        ],
    }
    for reason, contents in damaged.items():
        for number, content in enumerate(contents):
            path = write(tmp_path / f"{number}{kind}", content)
            with pytest.raises(DataError) as caught:
                TextFile.open(path)
            message = str(caught.value)
            assert message.startswith(f"{path} is {reason}") and "\n" not in message


def test_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.zst", zstandard.compress(b"a"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataError, match="pip install zstandard$"):
        TextFile.open(path)
