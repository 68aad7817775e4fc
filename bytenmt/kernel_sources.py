"""Find the files that compiled functions are made of, and name their contents by a digest.

Imports nothing, so that an installation without Numba can ask.
"""

from __future__ import annotations

import ast
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).parent
# Modules that kernels of any folder import.
LEAF_MODULES = (
    "compiled_hashes",
    "jit",
    "kernel_constants",
    "kernel_sources",
    "ngram_hash",
    "splitmix",
    "utf8",
)
# The files from which the CPU engine's two functions (entry.py) are compiled.
ENGINE_FILES = (
    "decoding/cpu/call_table.py",
    "decoding/cpu/entry.py",
    "decoding/cpu/interpreter.py",
    "decoding/cpu/operations.py",
    "decoding/cpu/pass_rows.py",
    "decoding/cpu/records.py",
    "decoding/cpu/scoring.py",
    "decoding/cpu/kernels/*.py",
    "decoding/search/*.py",
    "program/instructions.py",
)


def kernel_files(file: Path) -> list[Path]:
    """Return the Python files, sorted, that the compiled functions of `file` may use.

    A change of any of these files invalidates the functions' machine code.
    """
    near: list[Path] = []
    if PACKAGE / "decoding" in file.parents:
        near = engine_files()
    elif file.parent != PACKAGE:
        near = [*file.parent.glob("*.py")]
    return sorted({file, *near, *_leaf_files()})


def engine_files() -> list[Path]:
    """Return the files, sorted, from which the machine code of the CPU engine is compiled."""
    found = set(_leaf_files())
    for pattern in ENGINE_FILES:
        found.update(PACKAGE.glob(pattern))
    return sorted(found)


def _leaf_files() -> list[Path]:
    return [PACKAGE / f"{name}.py" for name in LEAF_MODULES]


def byte_digest(files: list[Path]) -> str:
    """Return a hash (64 hex digits) of the names and bytes of files. Raises OSError."""
    whole = sha256()
    for file in files:
        whole.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return whole.hexdigest()


def syntax_digest(files: list[Path]) -> str:
    """Return a hash (64 hex digits) of the code of Python files, without comments and docstrings.

    It is the same in every version of Python that can read them. Raises OSError, SyntaxError.
    """
    whole = sha256()
    for file in files:
        tree = ast.parse(file.read_bytes())
        whole.update(f"\0{file.name}\0{_syntax(tree)}".encode())
    return whole.hexdigest()


def _syntax(node: object) -> str:
    """Return a syntax tree as text, without positions, docstrings and empty fields."""
    if isinstance(node, list):
        return f"[{','.join(map(_syntax, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = []
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(value, list) and _is_text(value[0]):
            value = value[1:]
        if value not in (None, []):
            parts.append(f"{name}={_syntax(value)}")
    return f"{type(node).__name__}({','.join(parts)})"


def _is_text(statement: ast.AST) -> bool:
    """Return whether a statement is a docstring, or a string that does nothing."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
