"""Limits that cannot be met by denser code: lines of functions and files, layout by ruff.

Ruff holds the length of lines and the complexity of functions (pyproject.toml).
"""

import ast
from pathlib import Path

from source_tree import MODULES

MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400


def functions_over(text: str, limit: int) -> list[str]:
    """The names of functions that have more lines than a limit, in the source of a file."""
    return [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and n_lines(node) > limit
    ]


def n_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function with its docstring, from `def` to its end."""
    return (function.end_lineno or 0) - function.lineno + 1


def source_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_functions_fit_a_screen() -> None:
    sources = {name: source_of(path) for name, path in MODULES.items()}
    long_ones = {name: functions_over(text, MAX_FUNCTION_LINES) for name, text in sources.items()}
    assert {name: functions for name, functions in long_ones.items() if functions} == {}


def test_files_are_one_subject() -> None:
    sizes = {name: source_of(path).count("\n") for name, path in MODULES.items()}
    assert {name: n for name, n in sizes.items() if n > MAX_FILE_LINES} == {}


def test_layout_is_the_formatter_s() -> None:
    assert [name for name, path in MODULES.items() if "fmt: skip" in source_of(path)] == []


def test_a_long_function_is_found() -> None:
    assert functions_over("def short():\n    pass\ndef long():\n    a = 1\n    b = 2\n", 2) == [
        "long"
    ]
