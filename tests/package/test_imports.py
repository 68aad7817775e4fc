"""The rooms of the package: who may import whom, as docs/architecture.md says."""

import re
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter

from source_tree import MODULES, PACKAGE, imports

ARCHITECTURES = {"seq2seq", "bahdanau", "luong", "bytenet", "convs2s", "transformer"}
ROW = re.compile(r"^\| `([a-z0-9_]+)[/.py]*` \|[^|]*\| ([^|]*) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str]]:
    """The table of docs/architecture.md, from top to bottom: room, rooms that it imports."""
    return ROW.findall((PACKAGE / "docs/architecture.md").read_text(encoding="utf-8"))


def drawn() -> dict[str, set[str]]:
    """Each room of the table, and the rooms that it imports."""
    return {room: set(re.findall(r"[a-z0-9_]+", below)) for room, below in rows()}


def room(module: str) -> str:
    """data.corpus -> data; utf8 -> utf8."""
    return module.split(".")[0]


def real(modules: dict[str, set[str]]) -> dict[str, set[str]]:
    """The rooms that the files of each room import. modules: what each file imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, imported in modules.items():
        found[room(name)] |= {room(other) for other in imported} - {room(name), "__init__"}
    return {name: below for name, below in found.items() if not name.startswith("__")}


@cache
def all_imports() -> dict[str, set[str]]:
    """Return what each file of the package imports."""
    return {name: imports(path) for name, path in MODULES.items()}


def test_the_drawing_is_the_house() -> None:
    """No arrow too many, none too few, and every one of them points down."""
    assert real(all_imports()) == drawn(), "correct the table of packages of docs/architecture.md"
    above: set[str] = set()
    for name, below in drawn().items():
        assert not below & (above | {name}), f"{name} imports what stands above it"
        above.add(name)


def test_no_file_reaches_itself() -> None:
    graph = {name: imported - {"__init__", name} for name, imported in all_imports().items()}
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError


def test_architectures_do_not_know_each_other() -> None:
    folders = {name: f"architectures.{name}" for name in ARCHITECTURES}
    for module, imported in all_imports().items():
        if module.split(".")[0] == "architectures":
            own = {folder for folder in folders.values() if module.startswith(f"{folder}.")}
            others = tuple(f"{folder}." for folder in set(folders.values()) - own)
            assert not [name for name in imported if name.startswith(others)], module
