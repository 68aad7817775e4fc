"""The suite's own rules: what its lists name is there, and test modules do not import each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import suite

TESTS = Path(__file__).parent


def test_what_is_called_slow_is_there() -> None:
    for file, names in suite.slow():
        text = (TESTS / file).read_text(encoding="utf-8")
        defined = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
        assert names <= defined, f"{file}: {sorted(names - defined)}"


def test_a_whole_file_or_some_of_it_is_slow() -> None:
    assert suite.is_slow("training/test_kill.py", "test_anything")
    assert suite.is_slow("storage/test_admission.py", "test_every_command_asks")
    assert not suite.is_slow("storage/test_admission.py", "test_another")
    assert not suite.is_slow("data/test_corpus.py", "test_every_command_asks")


def test_the_order_names_what_is_there() -> None:
    assert (TESTS / suite.FIRST).is_file()
    assert all((TESTS / name).exists() for name in suite.WITHOUT_ENGINE)


def test_test_modules_do_not_import_each_other() -> None:
    """What several need stands in helpers/."""
    modules = {path.stem for path in TESTS.rglob("test_*.py")}
    for path in TESTS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^\s*(?:from|import) ([\w.]+)", text, re.MULTILINE):
            assert not modules & set(name.split(".")), f"{path.name} imports {name}"


def test_docstrings_name_files_that_are_there() -> None:
    """A module that a docstring names has not been renamed or deleted."""
    repository = TESTS.parent
    files = [path for folder in ("bytenmt", "tools", "tests") for path in (repository / folder).rglob("*.py")]
    names = {path.name for path in files}
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
        for node in ast.walk(tree):
            text = ast.get_docstring(node) if isinstance(node, kinds) else None
            named = set(re.findall(r"\b[a-z]\w*\.py\b", text or ""))
            assert named <= names, f"{path.relative_to(repository)} names {sorted(named - names)}"
