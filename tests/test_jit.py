"""Test the cache of compiled code: entries are read only if complete, our own and from the present sources,
and never required.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from processes import FORKSERVER
from source_tree import MODULES, module_imports

from bytenmt import jit, kernel_cache
from bytenmt.cli.main import main
from bytenmt.cli.progress import Console
from bytenmt.kernel_cache import (
    MAX_ENTRIES,
    PACKAGE,
    SUFFIX,
    VARIABLE,
    CacheFolder,
    KernelStore,
    digest,
    folders,
)
from bytenmt.reporter import Reporter

USER = os.geteuid()
FACTOR = 3
PATIENCE = 300  # seconds, on a machine with much to do
RAN: list[str] = []  # what a planted entry has run


def scaled(x: int) -> int:
    return FACTOR * x


def another_process(function: Callable[..., Any] = scaled) -> Any:
    """The function as a process finds it that has not called it yet."""
    return jit.njit(function)


def was_kept(compiled: Any) -> bool:
    """Call it; was it found on disk?"""
    assert compiled(14) == 14 * FACTOR
    hits, misses = sum(compiled.stats.cache_hits.values()), sum(compiled.stats.cache_misses.values())
    assert hits + misses == 1
    return hits == 1


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def use(monkeypatch: pytest.MonkeyPatch, *places: CacheFolder) -> None:
    """Another process, which keeps entries in these places."""
    fresh = KernelStore(places)
    monkeypatch.setattr(jit, "store", lambda: fresh)


def of_the_user(path: Path) -> CacheFolder:
    return CacheFolder(path, frozenset({USER}))


def out_of_reach(tmp_path: Path) -> CacheFolder:
    """A folder that cannot be made, not even by root."""
    (tmp_path / "file").touch()
    return of_the_user(tmp_path / "file" / "kernels")


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the messages shown to the user."""
    lines: list[str] = []

    class LineCollector(Reporter):
        def say(self, line: str) -> None:
            lines.append(line)

    monkeypatch.setattr(kernel_cache, "_reporter", [LineCollector()])
    return lines


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds the compiled function, and is the only place."""
    use(monkeypatch, of_the_user(tmp_path / "kernels"))
    assert not was_kept(another_process())
    return tmp_path / "kernels"


@pytest.mark.slow
def test_nothing_is_compiled_where_that_is_not_wanted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries on disk are read, missing ones are reported, and afterwards compilation works again."""
    with jit.cached_kernels_only():
        assert was_kept(another_process())
    use(monkeypatch, of_the_user(tmp_path / "empty"))
    with pytest.raises(jit.KernelNotCached, match="scaled"), jit.cached_kernels_only():
        another_process()(14)
    assert not was_kept(another_process())


@pytest.mark.slow
def test_a_function_is_compiled_once(folder: Path, messages: list[str]) -> None:
    assert was_kept(another_process())
    assert len(entries(folder)) == len(list(folder.iterdir())) == 1
    assert not messages


def test_what_python_alone_calls_is_kept_without_what_compiled_code_would_need(folder: Path) -> None:
    was_kept(another_process())
    (whole,) = entries(folder)
    n_whole = whole.stat().st_size
    whole.unlink()
    assert not was_kept(jit.njit_borrowing(scaled))
    assert was_kept(jit.njit_borrowing(scaled))
    (alone,) = entries(folder)
    assert alone.stat().st_size < n_whole - 1000


def test_types_are_told_apart(folder: Path) -> None:
    compiled = another_process()
    assert was_kept(compiled)
    assert compiled(0.5) == 0.5 * FACTOR
    assert len(entries(folder)) == 2


def test_what_a_function_encloses_is_part_of_it(folder: Path) -> None:
    def adding(n: int) -> Any:
        return another_process(lambda x: x + n)

    assert [adding(1)(1), adding(2)(1), adding(1)(1)] == [2, 3, 2]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "garbage": lambda whole: bytes(range(256)) * 20,
    "cut off": lambda whole: whole[: len(whole) // 2],
    "one bit": lambda whole: whole[:-1000] + bytes([whole[-1000] ^ 1]) + whole[-999:],
    "of something else": lambda whole: kernel_cache._checksum("other", pickle.dumps(1)) + pickle.dumps(1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_entry_is_compiled_again(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert not was_kept(another_process())
    assert entries(folder) == [entry]
    assert was_kept(another_process())


def test_a_damaged_entry_is_thrown_away(folder: Path) -> None:
    (entry,) = entries(folder)
    entry.write_bytes(b"")
    assert of_the_user(folder).read(entry.name) is None
    assert not entry.exists()


def run_planted() -> None:
    RAN.append("planted")


class Planted:
    """Runs where it is unpickled."""

    def __reduce__(self) -> Any:
        return run_planted, ()


def plant(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    payload = pickle.dumps(Planted())
    (folder / name).write_bytes(kernel_cache._checksum(name, payload) + payload)


@pytest.mark.parametrize("how", ["folder of another", "folder open to others", "file open to others"])
def test_what_others_can_write_is_not_read(
    folder: Path, how: str, monkeypatch: pytest.MonkeyPatch, messages: list[str]
) -> None:
    """Reading is unpickling, which runs what it says."""
    (entry,) = entries(folder)
    plant(folder, entry.name)
    place, second = of_the_user(folder), folder.parent / "second"
    if how == "folder of another":
        place = place._replace(owners=frozenset({USER + 1}))
    else:
        (folder if how == "folder open to others" else entry).chmod(0o777)
    use(monkeypatch, place, of_the_user(second))
    assert not was_kept(another_process())
    assert RAN == []
    why = "belongs to another user" if how == "folder of another" else "may be written by others"
    if how == "file open to others":  # which is replaced
        assert was_kept(another_process()) and not second.exists()
    else:
        assert why in messages[0]
        assert len(entries(second)) == 1


def test_a_planted_entry_would_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above tests something."""
    monkeypatch.setattr("test_jit.RAN", [])
    (entry,) = entries(folder)
    plant(folder, entry.name)
    with pytest.raises(TypeError):
        another_process()(14)
    assert RAN == ["planted"]


def test_without_the_first_place_there_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: list[str]
) -> None:
    """Another folder is reported once, in one line, when something is written; reading reports nothing."""
    places = out_of_reach(tmp_path), of_the_user(tmp_path / "second")
    use(monkeypatch, *places)
    compiled = another_process()
    assert not was_kept(compiled)
    assert compiled(0.5) == 0.5 * FACTOR
    (line,) = messages
    assert f"stored in {tmp_path / 'second'} instead of {places[0].path}" in line and VARIABLE in line
    use(monkeypatch, *places)
    assert was_kept(another_process())
    assert messages == [line]


def test_without_any_place_each_run_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: list[str]
) -> None:
    use(monkeypatch, out_of_reach(tmp_path))
    for _ in range(2):
        assert not was_kept(another_process())
    (line,) = messages
    assert "cannot be stored" in line and str(tmp_path) in line and VARIABLE in line


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_full_disk_stops_nothing(
    folder: Path, code: int, monkeypatch: pytest.MonkeyPatch, messages: list[str]
) -> None:
    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(kernel_cache, "open", Full, raising=False)
    (entry,) = entries(folder)
    entry.unlink()
    use(monkeypatch, of_the_user(folder))
    assert not was_kept(another_process())
    assert list(folder.iterdir()) == []
    (line,) = messages
    assert os.strerror(code) in line


def test_a_line_that_cannot_be_told_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that cannot be written, as on a full disk, with 2>&- or in a library, is dropped."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kernel_cache.tell("nobody reads this")
    monkeypatch.setattr(kernel_cache, "_reporter", kernel_cache._reporter.copy())
    kernel_cache.report_to(Console())
    for stream in (Full(), None):
        monkeypatch.setattr("sys.stderr", stream)
        kernel_cache.tell("nobody reads this")


def test_the_commands_tell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, one process of a job alone."""
    monkeypatch.setattr(kernel_cache, "_reporter", kernel_cache._reporter.copy())
    CliRunner().invoke(main, ["convert"])
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        kernel_cache.tell("kept\nelsewhere")
    assert capsys.readouterr() == ("", "bytenmt: kept\\nelsewhere\n")


def start_cold(barrier: Barrier, path: Path, results: Any) -> None:
    store = KernelStore([of_the_user(path)])
    jit.store = lambda: store  # type: ignore[assignment]
    compiled = another_process()
    barrier.wait(PATIENCE)
    results.put(compiled(14))


@pytest.mark.slow
def test_processes_that_start_together_do_not_meet(tmp_path: Path) -> None:
    barrier, results = FORKSERVER.Barrier(3), FORKSERVER.SimpleQueue()
    path = tmp_path / "kernels"
    running = [FORKSERVER.Process(target=start_cold, args=(barrier, path, results)) for _ in range(3)]
    for process in running:
        process.start()
    for process in running:
        process.join(PATIENCE)
    assert [process.exitcode for process in running] == [0, 0, 0]
    assert [results.get() for _ in running] == [14 * FACTOR] * 3
    assert len(entries(path)) == len(list(path.iterdir())) == 1


def test_old_entries_go(tmp_path: Path) -> None:
    """All but a function's latest; other functions' stay, and so do those that are read now and then."""
    place = of_the_user(tmp_path)
    for i in range(MAX_ENTRIES):
        place.write(f"one-{i:032}{SUFFIX}", b"")
        os.utime(tmp_path / f"one-{i:032}{SUFFIX}", (i, i))
    place.write(f"onetwo-{0:032}{SUFFIX}", b"")
    (tmp_path / f"x-1{SUFFIX}.7.ab.tmp").touch()
    os.utime(tmp_path / f"x-1{SUFFIX}.7.ab.tmp", (0, 0))
    assert place.read(f"one-{0:032}{SUFFIX}") == b""
    place.write(f"one-{MAX_ENTRIES:032}{SUFFIX}", b"")
    left = {path.name for path in tmp_path.iterdir()}
    assert f"one-{1:032}{SUFFIX}" not in left
    assert len(left) == MAX_ENTRIES + 1


@pytest.fixture
def edited(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sources as they will be read: a file of the package with one more line."""
    caches = digest, kernel_cache.covered, kernel_cache.imported

    def edit(name: str) -> None:
        read = kernel_cache._read
        changed = {PACKAGE / name: (PACKAGE / name).read_text(encoding="latin-1") + "\n# more\n"}
        monkeypatch.setattr(kernel_cache, "_read", lambda path: changed.get(path) or read(path))
        for one in caches:
            one.cache_clear()

    yield edit
    for one in caches:
        one.cache_clear()


HOLDS = [
    ("decoding/cpu/interpreter.py", "decoding/cpu/interpreter.py"),
    ("decoding/cpu/interpreter.py", "decoding/cpu/kernels/simd.py"),
    ("decoding/cpu/interpreter.py", "utf8.py"),
    ("decoding/cpu/interpreter.py", "ngram_hash.py"),
    ("decoding/cpu/interpreter.py", "kernel_constants.py"),
    ("decoding/cpu/interpreter.py", "jit.py"),
    ("data/batches.py", "utf8.py"),
    ("layers/fused_additive.py", "layers/kernel_helpers.py"),
]


@pytest.mark.parametrize(("kernel", "other"), HOLDS)
def test_an_edited_constant_is_compiled_in(kernel: str, other: str, edited: Callable[[str], None]) -> None:
    """Constants of every file that the kernel's file imports, directly or not, are part of the key."""
    before = digest(PACKAGE / kernel)
    edited(other)
    assert digest(PACKAGE / kernel) != before


def test_what_is_not_compiled_in_costs_nothing(edited: Callable[[str], None]) -> None:
    """A minute, after each edit of a command or of an error's words."""
    before = digest(PACKAGE / "decoding/cpu/interpreter.py")
    for other in (
        "errors.py",
        "architectures/presets.py",
        "decoding/interface.py",
        "decoding/engine_selection.py",
        "decoding/kept_spans.py",
        "decoding/glossary.py",
        "checkpoints/rounding.py",
        "sentinels.py",
        "kernel_cache.py",
        "reporter.py",
        "cli/main.py",
        "training/trainer.py",
        "decoding/loading.py",
        "decoding/cpu/session.py",
        "__init__.py",
    ):
        edited(other)
    assert digest(PACKAGE / "decoding/cpu/interpreter.py") == before


def test_the_kernels_depend_on_few_files() -> None:
    """The cache key covers kernels, the search and leaf modules, but no configuration, file formats or
    messages.
    """
    files = {
        path.relative_to(PACKAGE).as_posix()
        for path in kernel_cache.covered(PACKAGE / "decoding/cpu/interpreter.py")
    }
    outside = {name for name in files if not name.startswith("decoding/cpu/")}
    assert len(files) <= 30, sorted(files)
    assert outside == {
        "decoding/search/beam_search.py",
        "decoding/search/candidates.py",
        "decoding/search/ngram_blocking.py",
        "decoding/search/sampling.py",
        "decoding/search/state.py",
        "jit.py",
        "kernel_constants.py",
        "llvm_bf16.py",
        "program/instructions.py",
        "ngram_hash.py",
        "splitmix.py",
        "utf8.py",
    }


class Pair(NamedTuple):
    first: int
    second: int


class Turned(NamedTuple):
    second: int
    first: int


Turned.__name__ = "Pair"


def first_of(pair: Pair) -> int:
    return pair.first


def test_the_fields_of_records_are_part_of_it(folder: Path) -> None:
    """Compiled code knows them by their numbers; where they are defined need not be among its sources."""
    assert jit.njit(first_of)(Pair(1, 2)) == 1
    assert jit.njit(first_of)(Turned(1, 2)) == 2


def test_an_edited_source_is_another_entry(folder: Path, edited: Callable[[str], None]) -> None:
    """And the old one is there for who goes back."""
    edited("jit.py")
    compiled = another_process()
    assert not was_kept(compiled)
    assert len(entries(folder)) == 2


@pytest.mark.slow
def test_imports_are_found() -> None:
    """The imports of every file that compiles are those that Python's parser finds."""
    compiling = {path for path in MODULES.values() if "njit" in path.read_text(encoding="utf-8")}
    for path in {PACKAGE / "decoding/cpu/interpreter.py"} | compiling - {PACKAGE / "jit.py"}:
        for file in kernel_cache.covered(path):
            known = {MODULES[one] for one in module_imports(file) if one != "__init__"}
            assert known <= kernel_cache.imported(file), file


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's, the user's, one of its own among the temporary files; a variable replaces the first."""
    temporary = tmp_path / f"bytenmt-{USER}"
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    own = PACKAGE / "__pycache__" / "kernels"
    home = Path("/home/somebody/.cache/bytenmt")
    assert [place.path for place in folders()] == [own, home, temporary]
    assert folders()[2].owners == {USER} and {USER, 0} <= folders()[0].owners
    monkeypatch.setenv(VARIABLE, "/somewhere")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert [place.path for place in folders()] == [Path("/somewhere/bytenmt"), home, temporary]
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert folders()[1].path == Path("/caches/bytenmt")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # of a user whom the system does not know
    assert [place.path for place in folders()] == [Path("/somewhere/bytenmt"), temporary]


def test_the_users_folders_are_closed_to_others(tmp_path: Path) -> None:
    place = CacheFolder(tmp_path / "deep" / "own", frozenset({USER}), 0o700, own=True)
    place.write("one-1", b"x")
    assert place.path.stat().st_mode & 0o777 == 0o700
    assert place.read("one-1") == b"x"


def test_a_link_must_be_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another could have put one among the temporary files; to a larger disk the user's own may lead."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    place = of_the_user(tmp_path / "link")
    place.write("one-1", b"x")
    assert place.read("one-1") == b"x"
    of_another = os.stat_result((0o120777, 0, 0, 1, USER + 1, 0, 0, 0, 0, 0))
    monkeypatch.setattr("os.lstat", lambda path: of_another)
    assert place.read("one-1") is None
    with pytest.raises(PermissionError, match="another user"):
        place.write("one-2", b"x")
    assert len(list((tmp_path / "real").iterdir())) == 1


def test_nothing_is_made_in_anothers_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = CacheFolder(tmp_path / ".cache" / "own", frozenset({USER, USER + 1}), 0o700, own=True)
    monkeypatch.setattr("os.geteuid", lambda: USER + 1)
    with pytest.raises(PermissionError, match="another user's"):
        place.write("one-1", b"x")
    assert list(tmp_path.iterdir()) == []


@jit.njit
def inner(x: int) -> int:
    return x + FACTOR


def outer(x: int) -> int:
    return inner(x) + without_python(x)


def without_python(x: int) -> int:
    raise AssertionError


def test_as_python_is_python_all_the_way_down() -> None:
    """Called functions run as Python, too, and replacements are used; the compiled function is not
    changed.
    """
    compiled = jit.njit(outer)
    plain = jit.as_python(compiled, {without_python: lambda x: 10 * x})
    before = len(inner.signatures)  # type: ignore[attr-defined]
    assert plain(2) == 2 + FACTOR + 20
    assert len(inner.signatures) == before and not compiled.signatures  # type: ignore[attr-defined]
    assert outer.__globals__["inner"] is inner
    assert jit.as_python(compiled, {inner: lambda x: 0, without_python: lambda x: 1})(2) == 1
