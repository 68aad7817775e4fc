"""The package's files and what each imports, read from their source."""

from __future__ import annotations

import ast
from pathlib import Path

import bytenmt

PACKAGE = Path(bytenmt.__file__).parent


def module_name(path: Path) -> str:
    """data/corpus.py -> "data.corpus", models/__init__.py -> "models"."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


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


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
