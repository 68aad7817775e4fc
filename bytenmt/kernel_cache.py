"""Compiled kernels on disk: where they are kept, whom they are taken from, and whether they are whole.

An entry is one file, written whole or not at all, so that processes that start together do not meet. To read
one is to unpickle it, which runs what it says: only files and folders that belong to the user or to the
installation are read. Nothing here stops a program: without a place kernels are compiled again in every run,
and whoever report_to names is told. Knows folders, bytes and the imports of this package; knows no Numba.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bytenmt.reporter import Reporter

PACKAGE = Path(__file__).parent
VARIABLE = "NUMBA_CACHE_DIR"  # names the folder; Numba's own
SUFFIX, TEMPORARY = ".kernel", ".tmp"
KEPT = 16  # entries of one function: of the latest sources, machines and types
DAY = 24 * 60 * 60  # seconds
CHECKSUM_BYTES = 32

# from (bytenmt.x) import (a, b), or import (bytenmt.x, bytenmt.y), of a module itself: indented ones, of a
# function or for type checkers, bind no global name, from which compiled code takes its constants.
_IMPORT = re.compile(
    r"^(?:from[ \t]+(bytenmt[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+(bytenmt[^\n]*))",
    re.MULTILINE,
)


class Folder(NamedTuple):
    """A place for entries. owners: user ids whose files are read; mode: of the folder where it is made;
    own: made only in what belongs to the user, or to all."""

    path: Path
    owners: frozenset[int]
    mode: int = 0o755
    own: bool = False

    def read(self, name: str) -> bytes | None:
        """The payload of an entry; None where there is none to be trusted. A damaged one is thrown away."""
        path = self.path / name
        try:
            self._check()
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                self._check_status(status)
                data = file.read()
        except OSError:
            return None
        payload = data[CHECKSUM_BYTES:]
        whole = data[:CHECKSUM_BYTES] == _checksum(name, payload)
        with suppress(OSError):  # the installation's are not the user's to change
            if not whole:
                path.unlink()
            elif status.st_mtime < time() - DAY:
                os.utime(path)  # see _tidy
        return payload if whole else None

    def write(self, name: str, payload: bytes) -> None:
        """Raises OSError."""
        if self.own:
            self._check_ground()
        self.path.mkdir(self.mode, parents=True, exist_ok=True)
        self._check()
        temporary = self.path / f"{name}.{os.getpid()}.{os.urandom(4).hex()}{TEMPORARY}"
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
                file.write(_checksum(name, payload))
                file.write(payload)
            os.replace(temporary, self.path / name)
        finally:
            temporary.unlink(missing_ok=True)
        self._tidy(name)

    def _check(self) -> None:
        """Raises OSError where the folder is another's, or a link that another has made."""
        self._check_status(os.stat(self.path))
        if self.path.is_symlink():
            self._check_status(os.lstat(self.path))

    def _check_status(self, status: os.stat_result) -> None:
        """Raises OSError where others could have written what is read."""
        if os.name != "posix":  # access there is not told by owners and modes
            return
        if status.st_uid not in self.owners:
            raise PermissionError(errno.EACCES, "belongs to another user", str(self.path))
        if stat.S_ISLNK(status.st_mode):  # whose mode says nothing
            return
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(errno.EACCES, "may be written by others", str(self.path))

    def _check_ground(self) -> None:
        """Raises OSError where the folder would be made in another user's: `sudo` may leave a user's home to
        root, whose files would be in the way there. What all may write to, like /tmp, is nobody's."""
        if os.name != "posix":
            return
        ground = next(folder for folder in (self.path, *self.path.parents) if os.path.lexists(folder))
        status = os.lstat(ground)
        if status.st_uid != os.geteuid() and not status.st_mode & stat.S_ISVTX:
            raise PermissionError(errno.EACCES, "lies in another user's folder", str(ground))

    def _tidy(self, name: str) -> None:
        """Remove what nobody will ask for again: all but the function's latest, and what a killed process
        left."""
        function = name.rpartition("-")[0]
        with suppress(OSError):  # another process does the same
            entries = [(path.stat().st_mtime, path) for path in self.path.iterdir()]
            left = [path for at, path in entries if path.suffix == TEMPORARY and at < time() - DAY]
            same = [one for one in entries if one[1].match(f"{function}-*{SUFFIX}")]
            for path in left + [path for _, path in sorted(same)[:-KEPT]]:
                path.unlink(missing_ok=True)


class Store:
    """Entries in the first folder that takes them; read from all of them, in the same order."""

    def __init__(self, folders: Sequence[Folder]) -> None:
        self._folders = folders
        self._failed: list[str] = []  # why the first folders take nothing
        self._told = False

    def read(self, name: str) -> bytes | None:
        found = (folder.read(name) for folder in self._folders)
        return next((payload for payload in found if payload is not None), None)

    def write(self, name: str, payload: bytes) -> None:
        """Keep an entry. Where it is not the first folder that does, or none, a line says so, once."""
        for folder in self._folders[len(self._failed) :]:
            try:
                folder.write(name, payload)
            except OSError as error:
                self._failed.append(f"{folder.path} ({error.strerror})")
            else:
                if self._failed:
                    self._tell(f"compiled code is kept in {folder.path}, not in", "to choose a folder")
                return
        self._tell("compiled code is not kept, each run compiles again: cannot use", "to a folder of yours")

    def _tell(self, what: str, why: str) -> None:
        if not self._told:
            self._told = True
            tell(f"{what} {', '.join(self._failed) or 'any folder'}; set {VARIABLE} {why}")


_reporter: list[Reporter | None] = [None]


def report_to(reporter: Reporter) -> None:
    """Whom this process tells where compiled code is kept if that is not where it should be; nobody at
    first."""
    _reporter[0] = reporter


def tell(line: str) -> None:
    """A line for the user, if it can be told: nothing here stops a program."""
    if _reporter[0] is not None:
        with suppress(OSError):
            _reporter[0].say(f"bytenmt: {line}")


@cache
def store() -> Store:
    """The store of this process."""
    return Store(folders())


def folders() -> list[Folder]:
    """Where entries may be, the best place first: the folder that the environment names, else the package's
    own; the user's cache folder; the user's own one among the temporary files."""
    user = os.geteuid() if os.name == "posix" else 0
    trusted = frozenset({user, 0, PACKAGE.stat().st_uid})
    named = os.environ.get(VARIABLE)
    found = [Folder(Path(named) / "bytenmt" if named else PACKAGE / "__pycache__" / "kernels", trusted)]
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the specification: a relative one is not meant
        base = Path(os.path.expanduser("~"), ".cache")
    if base.is_absolute():  # a user without a home has none
        found.append(Folder(base / "bytenmt", trusted, 0o700, own=True))
    with suppress(OSError):  # no folder for temporary files
        found.append(
            Folder(Path(tempfile.gettempdir(), f"bytenmt-{user}"), frozenset({user}), 0o700, own=True)
        )
    return found


def entry_name(function: str, *parts: object) -> str:
    """The file's name of what was compiled from all of these parts, whose texts tell them apart."""
    key = sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]
    plain = re.sub(r"[^\w.]", "", function)[-100:]
    return f"{plain}-{key}{SUFFIX}"


@cache
def digest(file: Path) -> str:
    """The digest of a Python file and of all files of this package that it imports, or that these import:
    compiled code may hold constants of theirs. This file is left out: it only keeps what is compiled. Raises
    OSError."""
    texts = sorted((str(path.relative_to(PACKAGE.parent)), path) for path in covered(file) if path != file)
    whole = sha256(_read(file).encode())
    for name, path in texts:
        whole.update(f"\0{name}\0{_read(path)}".encode())
    return whole.hexdigest()


@cache
def covered(file: Path) -> frozenset[Path]:
    """The files that `digest` covers."""
    found, waiting = {file}, [file]
    while waiting:
        new = imported(waiting.pop()) - found - {Path(__file__)}
        found |= new
        waiting += new
    return frozenset(found)


@cache
def imported(file: Path) -> frozenset[Path]:
    """The files of this package that a module imports at its beginning, but for its __init__.py, which holds
    nothing that is computed with and names the rest for type checkers."""
    found = set()
    for package, names, modules in _IMPORT.findall(_read(file)):
        if not package:
            found |= {_file(name) for name in _names(modules)}
        elif (there := _file(package)) is None or there.name == "__init__.py":
            found |= {there, *(_file(f"{package}.{name}") for name in _names(names))}
        else:
            found.add(there)
    return frozenset(path for path in found if path is not None)


def _names(listed: str) -> Iterator[str]:
    """a, b as c  # why -> a, b; in parentheses over several lines too."""
    text = re.sub(r"#[^\n]*", "", listed)
    return (part.split()[0] for part in text.strip("() \t\r").split(",") if part.split())


@cache
def _file(module: str) -> Path | None:
    """bytenmt.data.batches -> data/batches.py, bytenmt.data -> data/__init__.py; None for bytenmt, and where
    there is no such file."""
    parts = module.split(".")[1:]
    there = PACKAGE.joinpath(*parts)
    files = (there.with_suffix(".py"), there / "__init__.py") if parts else ()
    return next((path for path in files if path.is_file()), None)


@cache
def _read(file: Path) -> str:
    return file.read_text(encoding="latin-1")  # which any bytes are; names of modules are ASCII


def _checksum(name: str, payload: bytes) -> bytes:
    return sha256(name.encode() + payload).digest()
