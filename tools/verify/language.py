"""List names and docstrings of the source that do not follow the project's style.

    python tools/verify/language.py                       the folders that are known to be clean
    python tools/verify/language.py bytenmt/serve tests   these folders or files

Reported are definitions (modules, classes, functions, fields and parameters) whose whole name is a word of an
earlier, private vocabulary, such as `Owing` or `told`; docstrings of which the first word cannot begin a
sentence with a verb ("What", "Those", "Whether"), and docstrings that say what a module "knows". Ends with 1
if there is anything to report.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# Folders without findings, which tools/check keeps so.
CLEAN = (
    "bytenmt/api",
    "bytenmt/architectures",
    "bytenmt/cli",
    "bytenmt/config",
    "bytenmt/data",
    "bytenmt/decoding",
    "bytenmt/documents",
    "bytenmt/evaluation",
    "bytenmt/language",
    "bytenmt/layers",
    "bytenmt/program",
    "bytenmt/datasets",
    "bytenmt/serve",
    "bytenmt/spans",
    "bytenmt/checkpoints",
    "tests",
    "tools",
)
NOT_YET = ("tools/verify/oracles.py",)

CLASSES = {
    "Owing": "ConstraintState",
    "Given": "ForcedText",
    "Meanwhile": "FallbackEngine",
    "Relay": "EngineProxy",
    "Asked": "ParsedRequest",
    "Wanted": "TranslateParams, ReadOptions",
    "Found": "TermMatch, SegmentResult, RowResult, ScoredText",
    "Piece": "Chunk",
    "Paper": "DocumentText",
    "Lines": "PlainText",
    "Layout": "TextLayout",
    "Crew": "ThreadContext",
    "Kept": "the noun of what is kept",
    "Waiting": "LineQueue",
    "Told": "the noun of what is told",
    "Place": "Slot",
}
FUNCTIONS = {
    "standing": "snapshot",
    "told": "to_dict, describe",
    "filled": "with_translations",
    "meet": "barrier_wait",
    "of_step": "execute_step_op",
    "of_source": "execute_source_op",
    "leads": "is_leader",
    "first": "on_leader",
    "add_up": "all_reduce",
    "carried_tensors": "state_dict",
    "take_up": "load_state_dict",
    "walk": "constraint_tracker",
    "asked": "a verb",
    "found": "a verb",
    "made": "a verb",
    "kept": "a verb",
    "wanted": "a verb",
    "given": "a verb",
    "of": "from_x",
}
FIELDS = {
    "firm": "commitment",
    "shut": "reserved_bytes",
    "joint": "separator",
    "told": "a noun",
    "asked": "a noun",
    "found": "a noun",
    "given": "a noun",
    "wanted": "a noun",
    "kept": "a noun",
    "made": "a noun",
    "leads": "is_leader",
    "behind": "after",
    "however": "a noun",
    "whatever": "a noun",
    "whoever": "a noun",
    "beside": "a noun",
}
MODULES = {
    "owing": "constraint_state",
    "given": "scoring",
    "meanwhile": "fallback",
    "asked": "request",
    "choice": "engine_selection",
    "pieces": "chunking",
    "kept": "decoder_memory",
    "uncompiled": "as_python",
    "in_numpy": "numpy_kernels",
    "told": "a noun",
    "lexer": "span_extractor",
    "walk": "constraint_tracker",
    "keeping": "a noun",
}
FIRST_WORDS = re.compile(
    r"(What|Those|That|These|Which|Whether|Who|Whose|How|Where|When|The same|Of|As|By|It|In|To|Such)\b"
)
KNOWS = re.compile(r"\b(Knows|Does not know)\b")


class Finding(NamedTuple):
    """A name or docstring to be changed."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.message}"


def source_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the Python files of folders, and files that are named themselves."""
    for path in paths:
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def findings(path: Path) -> Iterator[Finding]:
    """Yield the findings of a file."""
    if path.stem in MODULES:
        yield Finding(path, 1, f"module {path.stem}: call it {MODULES[path.stem]}")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from _name(path, node.lineno, "class", node.name, CLASSES)
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield from _name(path, field.lineno, "field", field.target.id, FIELDS)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _name(path, node.lineno, "function", node.name, FUNCTIONS)
            arguments = node.args
            for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                yield from _name(path, one.lineno, "parameter", one.arg, FIELDS)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstring(path, node)


def _name(path: Path, line: int, kind: str, name: str, table: dict[str, str]) -> Iterator[Finding]:
    better = table.get(name.lstrip("_"))
    if better is not None:
        yield Finding(path, line, f"{kind} {name}: call it {better}")


def _docstring(
    path: Path, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Finding]:
    text = ast.get_docstring(node)
    if text is None:
        return
    line = node.body[0].lineno
    if FIRST_WORDS.match(text):
        yield Finding(path, line, f"docstring begins with {text.split()[0]}: {text.splitlines()[0]}")
    if KNOWS.search(text):
        yield Finding(path, line, "docstring says what the code knows")


def main() -> int:
    """Print the findings of the folders or files of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument(
        "paths", nargs="*", type=Path, help="folders or files; default: those known to be clean"
    )
    paths = parser.parse_args().paths or [ROOT / name for name in CLEAN]
    skipped = {ROOT / name for name in NOT_YET}
    found = [
        finding
        for path in source_files([path.resolve() for path in paths])
        if path not in skipped
        for finding in findings(path)
    ]
    for finding in found:
        print(finding)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
