"""Packed files: what is in them comes out, once, and what is no sound archive is told in one line."""

import gzip
import lzma
import mmap
import os
import random
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bytenmt.data import decompress
from bytenmt.data.text_file import TextFile
from bytenmt.errors import BytenmtError, DataError
from bytenmt.reporter import Bar, Reporter

zstandard = pytest.importorskip("zstandard")
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lambda content: lzma.compress(content, preset=0),
    ".zst": zstandard.compress,
}
KINDS = sorted(PACKERS)
# More than one piece, packed too; words and noise, so that there is something to damage.
TEXT = b"".join(b"%d %s\n" % (i, random.Random(i).randbytes(30).hex().encode()) for i in range(9000))


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def unpack_both(path: Path, cache: Path) -> bytes:
    """The content, which must be the same in memory and in the cache."""
    content = decompress.unpack_into_memory(path)
    same = decompress.unpack_into_cache(path, cache).read_bytes() == content
    assert same
    return content


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_packed_comes_out(tmp_path: Path, kind: str) -> None:
    """One stream and several, empty ones among them; zeros between and behind them."""
    pack = PACKERS[kind]
    assert len(pack(TEXT)) > 3 * decompress.PIECE
    texts = [[TEXT], [b""], [b"a\n", b"", TEXT, b"b"], [bytes(3_000_000)], [b"x"] * 200]
    for number, parts in enumerate(texts):
        path = write(tmp_path / f"{number}{kind}", b"".join(map(pack, parts)))
        same = unpack_both(path, tmp_path / "cache") == b"".join(parts)
        assert same
        padding = b"".join(pack(part) + bytes(4) for part in parts)
        same = unpack_both(write(tmp_path / f"padded{number}{kind}", padding), tmp_path) == b"".join(parts)
        assert same


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_lines_are_read_as_they_are_unpacked(tmp_path: Path, kind: str) -> None:
    """A stream of the same bytes; of a file that is packed a thousandfold little is in memory at once."""
    path = write(tmp_path / f"text{kind}", PACKERS[kind](TEXT))
    assert decompress.reader(path).read() == TEXT
    assert list(decompress.reader(path)) == TEXT.splitlines(keepends=True)
    dense = write(tmp_path / f"dense{kind}", PACKERS[kind](bytes(100_000_000)))
    tracemalloc.start()
    with decompress.reader(dense) as stream:
        assert sum(len(stream.read(1 << 20)) for _ in range(60)) == 60 << 20
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 75_000_000


def test_other_frames_of_zst(tmp_path: Path) -> None:
    """A frame without its size, one with a checksum, one that is to be skipped."""
    skipped = bytes.fromhex("502a4d1805000000") + b"12345"
    unsized = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(b"ab")
    path = write(tmp_path / "a.zst", skipped + unsized + skipped + zstandard.compress(b"cd") + skipped)
    assert unpack_both(path, tmp_path) == b"abcd"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_archives(tmp_path: Path, kind: str) -> None:
    """Cut off anywhere, or changed: one line that names the file, and nothing left behind."""
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
            for cache in (None, tmp_path / "cache"):
                with pytest.raises(DataError) as caught:
                    TextFile.open(path, cache=cache)
                message = str(caught.value)
                assert message.startswith(f"{path} is {reason}") and "\n" not in message
            assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_unpacked_once_and_anew_when_changed(tmp_path: Path, kind: str) -> None:
    cache, other = tmp_path / "run" / "cache", tmp_path / "other"
    other.mkdir()
    path = write(tmp_path / f"text[1]{kind}", PACKERS[kind](b"one\n"))
    same_name = write(other / path.name, PACKERS[kind](b"other\n"))
    first = decompress.unpack_into_cache(path, cache)
    written = first.stat().st_mtime_ns, first.stat().st_ino
    elsewhere = decompress.unpack_into_cache(same_name, cache)
    assert decompress.unpack_into_cache(path, cache) == first and first.name.startswith("text[1].")
    assert (first.stat().st_mtime_ns, first.stat().st_ino) == written
    half_written = write(first.with_name(f".{first.name}.1.ab.tmp"), b"on")
    forgotten = write(first.with_name(f".{first.name}.2.ab.tmp"), b"on")
    os.utime(forgotten, (0, 0))
    write(path, PACKERS[kind](b"two\n"))
    os.utime(path, ns=(1, 1))
    second = decompress.unpack_into_cache(path, cache)
    assert second != first and second.read_bytes() == b"two\n"
    # The stale one is gone, and so is what was left behind long ago; another process may still write.
    assert sorted(cache.iterdir()) == sorted([second, elsewhere, half_written])
    assert elsewhere.read_bytes() == b"other\n"


def test_text_file_of_a_cache_is_mapped(tmp_path: Path) -> None:
    path = write(tmp_path / "t.gz", gzip.compress(b"\xef\xbb\xbfa\r\n\xff\n"))
    text = TextFile.open(path, cache=tmp_path / "cache")
    assert list(text) == [b"a", "\ufffd".encode()] and text.path == path
    assert isinstance(text.data.base, memoryview) and isinstance(text.data.base.obj, mmap.mmap)
    assert list(TextFile.open(write(tmp_path / "e.gz", gzip.compress(b"")), cache=tmp_path)) == []


def test_two_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both write while the other does: each writes a file of its own, and whole ones replace each other."""
    path = write(tmp_path / "t.gz", gzip.compress(TEXT))
    together, names = threading.Barrier(2), []

    def replace(old: Path, new: Path) -> None:
        together.wait(timeout=60)
        names.append(old)
        rename(old, new)

    rename = os.replace
    monkeypatch.setattr(decompress.os, "replace", replace)
    threads = [
        threading.Thread(target=decompress.unpack_into_cache, args=(path, tmp_path / "c")) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 2 and all(str(os.getpid()) in name.name for name in names)
    (whole,) = (tmp_path / "c").iterdir()
    same = whole.read_bytes() == TEXT
    assert same


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path = write(tmp_path / "t.gz", gzip.compress(TEXT))
    with monkeypatch.context() as patch, pytest.raises(DataError) as caught:
        patch.setattr(decompress.os, "fsync", full)
        decompress.unpack_into_cache(path, tmp_path / "c")
    message = str(caught.value)
    assert "\n" not in message and "No space left on device" in message and str(tmp_path / "c") in message
    assert list((tmp_path / "c").iterdir()) == []
    with pytest.raises(DataError, match="File exists"):  # the cache is a file
        decompress.unpack_into_cache(path, write(tmp_path / "file", b""))


def test_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.zst", zstandard.compress(b"a"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(DataError, match="pip install zstandard$"):
        TextFile.open(path)


def test_unpack_all(tmp_path: Path) -> None:
    """Only what is packed, each once; where one is damaged nothing half written stays."""
    cache = tmp_path / "c"
    good = write(tmp_path / "a.gz", gzip.compress(TEXT))
    decompress.unpack_all([write(tmp_path / "plain", b"a\n")], cache)
    assert not cache.exists()
    decompress.unpack_all([good, write(tmp_path / "b.xz", lzma.compress(b"b")), good], cache)
    assert sorted(file.name[:2] for file in cache.iterdir()) == ["a.", "b."]
    with pytest.raises(BytenmtError, match="bad.gz is truncated"):
        decompress.unpack_all([good, write(tmp_path / "bad.gz", b"")], tmp_path / "d")
    assert all(file.name.startswith("a.") for file in (tmp_path / "d").iterdir())


def test_an_error_stops_the_others(tmp_path: Path) -> None:
    """A file whose unpacking is stopped is never taken for a whole one."""
    path, stop = write(tmp_path / "t.gz", gzip.compress(TEXT)), threading.Event()
    stop.set()
    with pytest.raises(decompress._StoppedError):
        decompress.unpack_into_cache(path, tmp_path / "c", stop)
    assert list((tmp_path / "c").iterdir()) == []


def test_progress_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress bar in packed bytes is shown only for a large file; it ends at the file's size."""
    bars: list[tuple[float, str, str]] = []
    advanced: list[float] = []

    class Counting(Bar):
        def advance(self, n: float) -> None:
            advanced.append(n)

    class BarCollector(Reporter):
        @contextmanager
        def bar(self, total: float, unit: str, begun: float = 0.0, what: str = "") -> Iterator[Bar]:
            bars.append((total, unit, what))
            yield Counting()

    path = write(tmp_path / "t.gz", gzip.compress(TEXT))
    decompress.unpack_into_memory(path, BarCollector())
    assert not bars and not advanced
    monkeypatch.setattr(decompress, "LARGE", 1)
    decompress.unpack_into_memory(path, BarCollector())
    assert bars == [(path.stat().st_size, "B", "unpacking t.gz")] and sum(advanced) == bars[0][0]
