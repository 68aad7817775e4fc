"""A disk cache of compiled kernels: folders, integrity checks and the digest of the sources.

An entry is one file that is written atomically, so processes that start together do not disturb each other.
Entries are unpickled, which can run code: only files and folders that belong to the user or to the
installation are read. No failure here stops a program: without a usable folder the kernels are compiled in
every run, and a line says so (see report_to).
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
MAX_ENTRIES = 16  # of one function, the newest ones: of several sources, machines and argument types
DAY = 24 * 60 * 60  # seconds
CHECKSUM_BYTES = 32

# Matches from (bytenmt.x) import (a, b) and import (bytenmt.x, bytenmt.y) at the beginning of a line.
# Indented imports, in functions or for type checkers, bind no global name; compiled code reads only those.
_IMPORT = re.compile(
    r"^(?:from[ \t]+(bytenmt[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+(bytenmt[^\n]*))",
    re.MULTILINE,
)


class CacheFolder(NamedTuple):
    """A folder of entries.

    owners: user ids whose files are read. mode: permissions with which the folder is created. own: create it
    only inside a folder that belongs to the user or is writable by all, as /tmp.
    """

    path: Path
    owners: frozenset[int]
    mode: int = 0o755
    own: bool = False

    def read(self, name: str) -> bytes | None:
        """Return the payload of an entry, or None if it is missing or not trusted; delete a damaged one."""
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
        with suppress(OSError):  # the user may not change those of the installation
            if not whole:
                path.unlink()
            elif status.st_mtime < time() - DAY:
                os.utime(path)  # see _remove_stale
        return payload if whole else None

    def write(self, name: str, payload: bytes) -> None:
        """Write an entry atomically. Raises OSError."""
        if self.own:
            self._check_parent()
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
        self._remove_stale(name)

    def _check(self) -> None:
        """Raise OSError if the folder, or a symbolic link to it, belongs to somebody else."""
        self._check_status(os.stat(self.path))
        if self.path.is_symlink():
            self._check_status(os.lstat(self.path))

    def _check_status(self, status: os.stat_result) -> None:
        """Raise OSError if others could have written the file or folder."""
        if os.name != "posix":  # owners and modes do not describe access there
            return
        if status.st_uid not in self.owners:
            raise PermissionError(errno.EACCES, "belongs to another user", str(self.path))
        if stat.S_ISLNK(status.st_mode):  # its mode is meaningless
            return
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(errno.EACCES, "may be written by others", str(self.path))

    def _check_parent(self) -> None:
        """Raise OSError if the folder would be created inside another user's folder.

        With `sudo` a user's home may be root's home folder, where files of root would be in the way. A folder
        with the sticky bit that all may write to, such as /tmp, is allowed.
        """
        if os.name != "posix":
            return
        ground = next(folder for folder in (self.path, *self.path.parents) if os.path.lexists(folder))
        status = os.lstat(ground)
        if status.st_uid != os.geteuid() and not status.st_mode & stat.S_ISVTX:
            raise PermissionError(errno.EACCES, "lies in another user's folder", str(ground))

    def _remove_stale(self, name: str) -> None:
        """Delete all but the newest entries of a function, and temporary files of killed processes."""
        function = name.rpartition("-")[0]
        with suppress(OSError):  # another process does the same
            entries = [(path.stat().st_mtime, path) for path in self.path.iterdir()]
            left = [path for at, path in entries if path.suffix == TEMPORARY and at < time() - DAY]
            same = [one for one in entries if one[1].match(f"{function}-*{SUFFIX}")]
            for path in left + [path for _, path in sorted(same)[:-MAX_ENTRIES]]:
                path.unlink(missing_ok=True)


class KernelStore:
    """Several cache folders: entries are written to the first usable one and read from all, in order."""

    def __init__(self, folders: Sequence[CacheFolder]) -> None:
        self._folders = folders
        self._failed: list[str] = []  # why the first folders cannot be used
        self._told = False

    def read(self, name: str) -> bytes | None:
        """Return the payload of an entry, or None."""
        found = (folder.read(name) for folder in self._folders)
        return next((payload for payload in found if payload is not None), None)

    def write(self, name: str, payload: bytes) -> None:
        """Write an entry; tell the user once where this is not possible in the first folder."""
        for folder in self._folders[len(self._failed) :]:
            try:
                folder.write(name, payload)
            except OSError as error:
                self._failed.append(f"{folder.path} ({error.strerror})")
            else:
                if self._failed:
                    self._tell(
                        f"compiled kernels are stored in {folder.path} instead of", "to choose a folder"
                    )
                return
        self._tell(
            "compiled kernels cannot be stored, so every run compiles them again: no access to",
            "to a writable folder",
        )

    def _tell(self, what: str, why: str) -> None:
        if not self._told:
            self._told = True
            tell(f"{what} {', '.join(self._failed) or 'any folder'}; set {VARIABLE} {why}")


_reporter: list[Reporter | None] = [None]


def report_to(reporter: Reporter) -> None:
    """Set the reporter that is told where the cache is, if it is not in the usual folder."""
    _reporter[0] = reporter


def tell(line: str) -> None:
    """Show a line to the user through the reporter; does nothing without one, or where it fails."""
    if _reporter[0] is not None:
        with suppress(OSError):
            _reporter[0].say(f"bytenmt: {line}")


@cache
def store() -> KernelStore:
    """Return the store on disk where machine code of compiled functions is kept between runs."""
    return KernelStore(folders())


def folders() -> list[CacheFolder]:
    """Return the folders that may hold cache entries, best first.

    They are the folder that the environment names, else the package's own; the user's cache folder; and a
    folder of the user's among the temporary files.
    """
    user = os.geteuid() if os.name == "posix" else 0
    trusted = frozenset({user, 0, PACKAGE.stat().st_uid})
    named = os.environ.get(VARIABLE)
    found = [CacheFolder(Path(named) / "bytenmt" if named else PACKAGE / "__pycache__" / "kernels", trusted)]
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the specification: a relative one is not meant
        base = Path(os.path.expanduser("~"), ".cache")
    if base.is_absolute():  # a user without a home has none
        found.append(CacheFolder(base / "bytenmt", trusted, 0o700, own=True))
    with suppress(OSError):  # no folder for temporary files
        found.append(
            CacheFolder(Path(tempfile.gettempdir(), f"bytenmt-{user}"), frozenset({user}), 0o700, own=True)
        )
    return found


def entry_name(function: str, *parts: object) -> str:
    """Return the file name of an entry. parts: everything that the machine code depends on."""
    key = sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]
    plain = re.sub(r"[^\w.]", "", function)[-100:]
    return f"{plain}-{key}{SUFFIX}"


@cache
def digest(file: Path) -> str:
    """Return the digest of a Python file and of all files of this package that it imports, at any depth.

    Compiled code may contain their constants. This file is left out: it only stores machine code. Raises
    OSError.
    """
    texts = sorted((str(path.relative_to(PACKAGE.parent)), path) for path in covered(file) if path != file)
    whole = sha256(_read(file).encode())
    for name, path in texts:
        whole.update(f"\0{name}\0{_read(path)}".encode())
    return whole.hexdigest()


@cache
def covered(file: Path) -> frozenset[Path]:
    """Return the files that `digest` covers."""
    found, waiting = {file}, [file]
    while waiting:
        new = imported(waiting.pop()) - found - {Path(__file__)}
        found |= new
        waiting += new
    return frozenset(found)


@cache
def imported(file: Path) -> frozenset[Path]:
    """Return the files of this package that a module imports by top-level statements.

    The package's own __init__.py is left out: it computes nothing and names the rest for type checkers.
    """
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
    """Split the names of an import statement: "a, b as c  # comment" gives a and b."""
    text = re.sub(r"#[^\n]*", "", listed)
    return (part.split()[0] for part in text.strip("() \t\r").split(",") if part.split())


@cache
def _file(module: str) -> Path | None:
    """Return the path of a module: bytenmt.data.batches is data/batches.py; None if there is no such file."""
    parts = module.split(".")[1:]
    there = PACKAGE.joinpath(*parts)
    files = (there.with_suffix(".py"), there / "__init__.py") if parts else ()
    return next((path for path in files if path.is_file()), None)


@cache
def _read(file: Path) -> str:
    return file.read_text(encoding="latin-1")  # which any bytes are; names of modules are ASCII


def _checksum(name: str, payload: bytes) -> bytes:
    return sha256(name.encode() + payload).digest()
