"""Count lines, concepts and dense statements by package, and compare checkouts.

    python tools/sizes.py [CHECKOUT ...]

For each package of bytenmt/, for tests/ and tools/, two tables. The first has lines (docstrings and
blanks included), files, classes, functions, and statements `raise` and `except`. The second has,
per 1,000 statements, assignments of several unrelated targets (`a, b = x, y`, but no swap),
ternaries and comprehensions within comprehensions, and the number of lines over 100 columns. The
commands of the command line and the options of `serve` follow. With several checkouts, of any
commits, the tables stand below each other.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

CONCEPTS: dict[str, type | tuple[type, ...]] = {
    "classes": ast.ClassDef,
    "functions": (ast.FunctionDef, ast.AsyncFunctionDef),
    "raise": ast.Raise,
    "except": ast.ExceptHandler,
}
SIZES = ("lines", "files", *CONCEPTS)
DENSITIES = ("packed assignments", "ternaries", "nested comprehensions")  # per 1,000 statements
WIDE = "lines over 100 columns"
MAX_COLUMNS = 100
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def count_file(path: Path) -> Counter[str]:
    """Return the counts of a file by the names of SIZES, DENSITIES and WIDE, and "statements"."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    counts = Counter({"lines": text.count("\n"), "files": 1})
    counts[WIDE] = sum(len(line) > MAX_COLUMNS for line in lines)
    for node in ast.walk(ast.parse(text)):
        for name, kind in CONCEPTS.items():
            counts[name] += isinstance(node, kind)
        counts["statements"] += isinstance(node, ast.stmt)
        counts["packed assignments"] += is_packed(node)
        counts["ternaries"] += isinstance(node, ast.IfExp)
        counts["nested comprehensions"] += is_nested(node)
    return counts


def is_packed(node: ast.AST) -> bool:
    """Return whether a statement assigns several values to as many targets, and is not a swap."""
    if not isinstance(node, ast.Assign):
        return False
    target = node.targets[0]
    if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)):
        return False
    targets = sorted(ast.unparse(element) for element in target.elts)
    values = sorted(ast.unparse(element) for element in node.value.elts)
    return targets != values


def is_nested(node: ast.AST) -> bool:
    """Return whether a comprehension has another one in it."""
    if not isinstance(node, COMPREHENSIONS):
        return False
    inner = [part for part in ast.walk(node) if part is not node]
    return any(isinstance(part, COMPREHENSIONS) for part in inner)


def package_of(path: Path, root: Path) -> str:
    """Return the row of a file: tests, tools, a package of bytenmt, or "single files"."""
    parts = path.relative_to(root).parts
    if parts[0] != "bytenmt":
        return f"{parts[0]}/"
    return f"bytenmt/{parts[1]}/" if len(parts) > 2 else "bytenmt/*.py"


def count_checkout(root: Path) -> dict[str, Counter[str]]:
    """Return the counts of each row, and of bytenmt/ as a whole."""
    rows: dict[str, Counter[str]] = {"bytenmt/": Counter()}
    for folder in ("bytenmt", "tests", "tools"):
        for path in sorted((root / folder).rglob("*.py")):
            counts = count_file(path)
            rows.setdefault(package_of(path, root), Counter()).update(counts)
            if folder == "bytenmt":
                rows["bytenmt/"].update(counts)
    return rows


def count_commands(root: Path) -> tuple[int, int]:
    """Return the number of commands, and of the options of serve."""

    def help_of(*words: str) -> str:
        command = [sys.executable, "-m", "bytenmt", *words, "--help"]
        return subprocess.check_output(command, cwd=root, encoding="utf-8")

    commands = help_of().partition("Commands:")[2]
    n_commands = len(re.findall(r"^  [a-z]", commands, re.MULTILINE))
    n_options = len(re.findall(r"^ +-", help_of("serve"), re.MULTILINE))
    return n_commands, n_options


def print_tables(rows: dict[str, Counter[str]]) -> None:
    """Print the sizes and the densities of the rows as tables in Markdown."""
    print("| | " + " | ".join(SIZES) + " |\n|---|" + "---:|" * len(SIZES))
    for row, counts in rows.items():
        print(f"| {row} | " + " | ".join(f"{counts[name]:,}" for name in SIZES) + " |")
    print("\n| per 1,000 statements | " + " | ".join((*DENSITIES, WIDE)) + " |")
    print("|---|" + "---:|" * (len(DENSITIES) + 1))
    for row, counts in rows.items():
        shares = [f"{1000 * counts[name] / (counts['statements'] or 1):.1f}" for name in DENSITIES]
        print(f"| {row} | " + " | ".join([*shares, f"{counts[WIDE]:,}"]) + " |")


def main() -> None:
    """Print the tables of the checkouts that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT")
    roots = parser.parse_args().checkouts or [Path(__file__).parents[1]]
    for root in map(Path.resolve, roots):
        print_tables(count_checkout(root))
        n_commands, n_options = count_commands(root)
        print(f"\n{root.name}: {n_commands} commands, {n_options} options of serve\n")


if __name__ == "__main__":
    main()
