"""List names and docstrings of the source that do not follow the project's style.

    python tools/verify/language.py                       the folders that are known to be clean
    python tools/verify/language.py bytenmt/serve tests   these folders or files

Reported are definitions (modules, classes, functions, fields and parameters) whose whole name is a
word of an earlier, private vocabulary, such as `Owing` or `told`; docstrings of which the first
word cannot begin a sentence with a verb ("What", "Those", "Whether"), and docstrings that say what
a module "knows". Ends with 1 if there is anything to report.
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
CLEAN = [path for path in (ROOT / "bytenmt").glob("*/") if path.name not in ("training", "docs")]
CLEAN += [ROOT / "tests", ROOT / "tools"]
NOT_YET = ("tools/verify/oracles.py",)

# Words that say nothing as the whole name of something.
WORDS = {
    "class": r"Owing|Given|Meanwhile|Relay|Asked|Wanted|Found|Piece|Paper|Crew|Kept|Waiting|Told|Place",
    "function": r"standing|told|filled|meet|of_step|of_source|leads|first|add_up|take_up|walk|asked|found"
    r"|made|kept|wanted|given|of",
    "field": r"firm|shut|joint|told|asked|found|given|wanted|kept|made|leads|behind|however|whatever|whoever"
    r"|beside",
    "module": r"owing|given|meanwhile|asked|choice|pieces|kept|uncompiled|in_numpy|told|walk|keeping",
}
WORDS["parameter"] = WORDS["field"]
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
    named: list[tuple[str, str, int]] = [("module", path.stem, 1)]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            named.append(("class", node.name, node.lineno))
            fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
            named += (("field", ast.unparse(field.target), field.lineno) for field in fields)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            named.append(("function", node.name, node.lineno))
            every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            named += (("parameter", one.arg, one.lineno) for one in every)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstring(path, node)
    for kind, name, line in named:
        if re.fullmatch(WORDS[kind], name.lstrip("_")):
            yield Finding(path, line, f"{kind} {name}: name what it is or does")


def _docstring(
    path: Path, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Finding]:
    text = ast.get_docstring(node)
    if text is None:
        return
    line = node.body[0].lineno
    if FIRST_WORDS.match(text):
        yield Finding(
            path, line, f"docstring begins with {text.split()[0]}: {text.splitlines()[0]}"
        )
    if KNOWS.search(text):
        yield Finding(path, line, "docstring says what the code knows")


def main() -> int:
    """Print the findings of the folders or files of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument(
        "paths", nargs="*", type=Path, help="folders or files; default: those known to be clean"
    )
    paths = parser.parse_args().paths or CLEAN
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
