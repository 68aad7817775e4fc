"""Rules of the test suite: test modules do not import each other, and docstrings name existing files."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def test_test_modules_do_not_import_each_other() -> None:
    """Shared code is in helpers/."""
    modules = {path.stem for path in TESTS.rglob("test_*.py")}
    for path in TESTS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^\s*(?:from|import) ([\w.]+)", text, re.MULTILINE):
            assert not modules & set(name.split(".")), f"{path.name} imports {name}"


@pytest.mark.slow
def test_docstrings_name_files_that_are_there() -> None:
    """A module that a docstring names has not been renamed or deleted."""
    repository = TESTS.parent
    files = [path for folder in ("bytenmt", "tools", "tests") for path in (repository / folder).rglob("*.py")]
    names = {path.name for path in files}
    for path in files:
        source = path.read_text(encoding="utf-8")
        if not re.search(r"\w\.py\b", source):
            continue
        tree = ast.parse(source)
        kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
        for node in ast.walk(tree):
            text = ast.get_docstring(node) if isinstance(node, kinds) else None
            named = set(re.findall(r"\b[a-z]\w*\.py\b", text or ""))
            assert named <= names, f"{path.relative_to(repository)} names {sorted(named - names)}"


def test_one_file_compiles_the_kernels() -> None:
    """A second file with the mark would come first, too, and its process would wait for the compiler."""
    mark = "mark." + "compiles_kernels"
    marked = [path for path in TESTS.rglob("test_*.py") if mark in path.read_text(encoding="utf-8")]
    assert len(marked) == 1
