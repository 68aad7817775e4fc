"""Unpack text files (`.gz`, `.xz`, `.zst`) once, into a cache folder or into memory."""

import hashlib
import lzma
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from io import BufferedReader, RawIOBase
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

from bytenmt.atomic_file import SUFFIX, replacing
from bytenmt.errors import DataError
from bytenmt.reporter import SILENT, Reporter

PIECE = 1 << 16  # packed bytes that are read at once
# And unpacked at once, at most some twenty MB: a .gz packs a thousandfold, the others tens of thousands.
MORSELS = {".gz": 1 << 13, ".xz": 1 << 9, ".zst": 1 << 9}
ENOUGH = 1 << 18  # bytes of one morsel that are passed on without others
LARGE = 1 << 23  # packed bytes from which on a progress bar is shown
FORGOTTEN = 86_400.0  # seconds after which a temporary file is taken for that of a killed process


class _StoppedError(Exception):
    """Raised inside to stop when another thread has failed or the user has interrupted."""


def _zstd() -> Any:
    """Return a new decoder for one frame of `.zst`."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: 31})
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()


# What makes a decoder of one stream: decompress(bytes), eof, unused_data. All check their sums.
DECODERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    ".zst": _zstd,
}


def is_packed(path: Path) -> bool:
    """Return whether the file's name says that it is packed in a known way."""
    return path.suffix in DECODERS


def unpacked(path: Path, reporter: Reporter = SILENT) -> Iterator[bytes]:
    """Yield the bytes of a packed file as they are unpacked. Raises DataError as unpack_into_memory does."""
    return _unpacked(path, reporter, Event())


def reader(path: Path) -> BufferedReader:
    """Open a packed file as a stream of its content, in little memory.

    Reading raises DataError as unpack_into_memory does.
    """
    return BufferedReader(_Unpacked(unpacked(path)), PIECE)


class _Unpacked(RawIOBase):
    """A stream over pieces of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._waiting = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._waiting:
            self._waiting = memoryview(b"")  # an empty view would keep what it is a view of
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._waiting = memoryview(piece)
        n = min(len(buffer), len(self._waiting))
        buffer[:n], self._waiting = self._waiting[:n], self._waiting[n:]
        return n


def unpack_into_memory(path: Path, reporter: Reporter = SILENT) -> bytes:
    """Return all bytes of a packed file. Raises DataError if it is damaged or cannot be read."""
    return b"".join(_unpacked(path, reporter, Event()))


def unpack_into_cache(
    path: Path, cache: Path, stop: Event | None = None, reporter: Reporter = SILENT
) -> Path:
    """Return the unpacked file in the folder `cache`; it is written only if it is not there yet.

    Its name tells path, size and time of the packed file, so that a changed one is unpacked again; older
    results of the same path are removed. Other processes may do the same at the same time: each writes a file
    of its own, and complete ones replace each other. stop: ends the work from another thread. Raises
    DataError.
    """
    path = Path(os.path.abspath(path))
    status = path.stat()
    prefix = f"{path.stem[:60]}.{_key(str(path))}."
    whole = cache / (prefix + _key(f"{status.st_size} {status.st_mtime_ns}"))
    if whole.is_file():
        return whole
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _remove_stale(cache, prefix)
        with replacing(whole, unique=f".{os.urandom(4).hex()}") as file:
            for piece in _unpacked(path, reporter, stop or Event()):
                file.write(piece)
    except OSError as error:
        raise DataError(
            f"{path} cannot be unpacked into {cache} ({error.strerror}): free disk space there, or unpack"
            f" the file yourself"
        ) from error
    return whole


def unpack_all(paths: Sequence[Path], cache: Path, reporter: Reporter = SILENT) -> None:
    """Unpack the packed ones of these files into the cache, in threads; the first error stops all."""
    packed = sorted({path for path in paths if is_packed(path)})
    if not packed:
        return
    stop = Event()
    with ThreadPoolExecutor(min(len(packed), os.cpu_count() or 1)) as threads:
        try:
            for future in as_completed(
                threads.submit(unpack_into_cache, path, cache, stop, reporter) for path in packed
            ):
                future.result()
        finally:
            stop.set()


def _key(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]


def _remove_stale(cache: Path, prefix: str) -> None:
    """Remove what was unpacked from an older state of a file, and unfinished files of killed processes."""
    for file in cache.iterdir():
        if file.name.removeprefix(".").startswith(prefix):
            with suppress(FileNotFoundError):  # another process may do the same
                if file.suffix != SUFFIX or time.time() - file.stat().st_mtime > FORGOTTEN:
                    file.unlink()


def _unpacked(path: Path, reporter: Reporter, stop: Event) -> Iterator[bytes]:
    """Yield the unpacked bytes of a file, piece by piece, with a progress bar if it takes long.

    Raises DataError, and _StoppedError once `stop` is set.
    """
    size = path.stat().st_size
    shown = reporter if size >= LARGE else SILENT
    damage: tuple[type[Exception], ...] = (zlib.error, lzma.LZMAError, *_zstd_errors())
    try:
        with open(path, "rb") as file, shown.bar(size, "B", what=f"unpacking {path.name}") as bar:
            n_read = 0
            for piece in _streams(file, DECODERS[path.suffix], MORSELS[path.suffix]):
                if stop.is_set():
                    raise _StoppedError
                bar.advance(file.tell() - n_read)
                n_read = file.tell()
                yield piece
    except EOFError as error:
        raise DataError(
            f"{path} is truncated: its {path.suffix} data ends too early; copy it again"
        ) from error
    except ImportError as error:
        raise DataError(f"{path} needs a package that is missing: pip install zstandard") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): check its permissions") from error
    except damage as error:
        raise DataError(
            f"{path} is damaged or not a {path.suffix} file ({error}): copy or pack it again"
        ) from error


def _zstd_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a damaged `.zst` raises; none if no decoder is installed."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd

            return (zstd.ZstdError,)
        import zstandard

        return (zstandard.ZstdError,)
    except ImportError:
        return ()


def _streams(file: BinaryIO, new_decoder: Callable[[], Any], morsel: int) -> Iterator[bytes]:
    """Yield the bytes of all streams of a file, one after another.

    Raises EOFError if the last one is cut off.

    Written by hand, because the libraries' own file objects lose text silently: lzma.LZMAFile ignores a
    damaged stream after a complete one, and zstandard's reader does not notice that a frame is cut off.
    """
    decoder = new_decoder()
    while whole := file.read(PIECE):
        made: list[bytes] = []
        for start in range(0, len(whole), morsel):
            piece = whole[start : start + morsel]
            while piece:
                if decoder.eof:
                    piece = piece.lstrip(b"\0")  # padding between streams
                    if not piece:
                        break
                    decoder = new_decoder()
                made.append(decoder.decompress(piece))
                piece = decoder.unused_data if decoder.eof else b""
            if len(made[-1] if made else b"") > ENOUGH:  # what is packed a thousandfold
                piece, made = b"".join(made), []
                yield piece
        yield b"".join(made)
    if not decoder.eof:
        raise EOFError
