"""The layers of the package: a file imports lower numbers only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bytenmt

PACKAGE = Path(bytenmt.__file__).parent

# The layer of a file, or of all files of a folder. ANY: may be imported by all, imports nothing.
ANY = -1
LAYERS: dict[str, int] = {
    "__init__": ANY,
    "errors": ANY,
    "bounds": ANY,
    "presets": 0,
    "alphabet": 0,
    "kernel_cache": ANY,
    "jit": 0,
    "decoding": 0,
    "untrusted": -1,
    "config": 0,
    "parameters": 1,
    "memory": 2,
    "admission": 2,
    "lock": 1,
    "lostbytes": 0,
    "scan": 1,
    "unpack": 1,
    "textfile": 1,
    "corpus": 1,
    "packing": 1,
    "plan": 1,
    "batching": 1,
    "inventory": 2,
    "device": 2,
    "distributed": 2,
    "layers": 2,
    "models": 3,
    "cpu": 3,
    "engines": 4,
    "tensorfile": 1,
    "pointer": 2,
    "draft": 2,
    "draft_kernels": 1,
    "draft_counts": 3,
    "drafting": 8,
    "weights": 3,
    "checkpoint": 4,
    "average": 5,
    "search": 5,
    "runtime": 5,
    "translate": 6,
    "stream": 7,
    "answers": 7,
    "alignment": 6,
    "convert": 6,
    "predict": 6,
    "score": 6,
    "evaluate": 7,
    "ngram": 1,
    "characters": 1,
    "figures": 7,
    "page": 8,
    "reference": 7,
    "generate": 7,
    "optimise": 5,
    "report": 5,
    "streams": 1,
    "trainer": 7,
    "stream_trainer": 8,
    "feeds": 9,
    "loop": 10,
    "train": 11,
    "console": 9,
    "options": 9,
    "asking": 9,
    "prepare": 9,
    "partial": 10,
    "info": 9,
    "language": 10,
    "runs": 10,
    "cli": 12,
    "__main__": 13,
}
# Imports within one number that are meant: presets lie under config, text under batches.
WITHIN: set[tuple[str, str]] = {
    ("runtime", "search"),
    ("__init__", "translate"),  # for type checkers, and when it is asked for
    ("config", "presets"),
    ("textfile", "scan"),
    ("textfile", "unpack"),
    ("corpus", "scan"),
    ("corpus", "textfile"),
    ("corpus", "unpack"),
    ("plan", "packing"),
    ("batching", "corpus"),
    ("batching", "textfile"),
    ("batching", "plan"),
    ("engines.choice", "engines.draw"),
    ("engines.choice", "engines.guard"),
    ("engines.readback", "engines.choice"),
    ("engines.torch_engine", "engines.choice"),
    ("engines.torch_engine", "engines.readback"),
    ("engines.speculate", "engines.choice"),
    ("engines.speculate", "engines.draw"),
    ("engines.torch_engine", "engines.speculate"),
    ("engines.cuda_graph", "engines.speculate"),
    ("engines.cuda_graph", "engines.choice"),
    ("engines.cuda_graph", "engines.readback"),
    ("engines.cuda_graph", "engines.torch_engine"),
}
ARCHITECTURES = {"seq2seq", "bahdanau", "luong", "bytenet", "convs2s"}


def module_name(path: Path) -> str:
    """corpus.py -> "corpus", models/luong.py -> "models.luong", models/__init__.py -> "models"."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def layer(name: str) -> int:
    top = name.split(".")[0]
    assert top in LAYERS, f"{name}: unknown; add it to the table in tests/test_imports.py"
    return LAYERS[top]


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {resolve(name) for name in names if name.split(".")[0] == "bytenmt"}
    return found


def resolve(name: str) -> str:
    """bytenmt.models.base.Model -> "models.base": the longest part that is a file or folder."""
    parts = name.split(".")[1:]
    while parts and not (
        (PACKAGE.joinpath(*parts)).is_dir() or PACKAGE.joinpath(*parts).with_suffix(".py").is_file()
    ):
        parts.pop()
    return ".".join(parts) or "__init__"


def allowed(importer: str, imported: str) -> bool:
    """May one file import the other?"""
    if imported in ("__init__", "errors"):
        return True
    if (importer, imported) in WITHIN:
        return True
    folder, name = imported.partition(".")[::2]
    if importer.split(".")[0] == folder:
        if folder == "models":
            return importer == "models" or name == "base"
        return folder in ("layers", "cpu") and name != ""
    return layer(imported) < layer(importer)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@pytest.mark.parametrize("name", MODULES)
def test_a_file_imports_lower_layers_only(name: str) -> None:
    """Numbers are layers; equal ones only inside layers/ and cpu/, and models/ through base."""
    layer(name)
    wrong = {imported for imported in imports(MODULES[name]) if not allowed(name, imported)}
    assert not wrong, f"{name} may not import {', '.join(sorted(wrong))}"


def test_models_do_not_know_each_other() -> None:
    """The five architectures never import each other."""
    for name in ARCHITECTURES:
        known = {imported.rpartition(".")[2] for imported in imports(MODULES[f"models.{name}"])}
        assert not known & (ARCHITECTURES - {name})


def test_nothing_imports_the_command_line() -> None:
    """cli is the top; only `python3 -m bytenmt` enters through it."""
    for name, path in MODULES.items():
        assert name == "__main__" or "cli" not in imports(path)


def test_no_import_cycles() -> None:
    """Follow the imports anywhere: no file reaches itself."""
    below = {name: imports(path) - {"__init__"} for name, path in MODULES.items()}

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"a cycle: {' -> '.join((*above, name))}"
        for imported in below[name]:
            visit(imported, (*above, name))

    for name in below:
        visit(name, ())


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("search", "train"),
        ("models.luong", "models.bytenet"),
        ("models.luong", "models"),
        ("layers.attention", "models.base"),
        ("models.base", "search"),
        ("alphabet", "config"),
        ("presets", "config"),
        ("engines.torch_engine", "engines.numba_cpu"),
        ("cpu.kernels", "models.base"),
        ("train", "cli"),
        ("corpus", "batching"),
    ],
)
def test_the_rule_bites(importer: str, imported: str) -> None:
    """What the design forbids is not allowed."""
    assert not allowed(importer, imported)


def test_an_unknown_file_is_told_of() -> None:
    """A new file must be put into the table."""
    with pytest.raises(AssertionError, match="add it to the table"):
        layer("novelty")


@pytest.mark.parametrize("name", ["search", "engines.numba_cpu"])
def test_decoding_on_a_cpu_does_not_import_pytorch(name: str) -> None:
    """A line alone is answered sooner than PyTorch is imported."""
    program = f"import sys, bytenmt.{name}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
