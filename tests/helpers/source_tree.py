"""The package's files and what each imports, read from their source."""

import ast
from functools import cache
from pathlib import Path

import bytenmt

PACKAGE = Path(bytenmt.__file__).parent


def module_name(path: Path) -> str:
    """data/corpus.py -> "data.corpus", layers/__init__.py -> "layers"."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        found |= {resolve(name) for name in _names(node)}
    return found


def module_imports(path: Path) -> set[str]:
    """Return the `imports` that are executed on import: not in functions, nor for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        imported = (one for one in ast.walk(node) if isinstance(one, ast.Import | ast.ImportFrom))
        inside = [one for one in imported if one is not node]
        is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for_checkers = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not is_definition and not for_checkers:
            names = {name for one in inside for name in _names(one)}
            assert not names, f"{path.name}: imports in a block, which the cache key would miss"
    return {resolve(name) for node in tree.body for name in _names(node)}


def _names(node: ast.AST) -> list[str]:
    """Return the full names of this package that an import binds."""
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "a relative import"
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in names if name.split(".")[0] == "bytenmt"]


@cache
def resolve(name: str) -> str:
    """Return the longest part that is a file or folder: bytenmt.utf8.decode -> "utf8"."""
    parts = name.split(".")[1:]
    while parts and not (
        (PACKAGE.joinpath(*parts)).is_dir() or PACKAGE.joinpath(*parts).with_suffix(".py").is_file()
    ):
        parts.pop()
    return ".".join(parts) or "__init__"


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
