"""Count lines and concepts by package, and compare two checkouts.

    python tools/sizes.py [CHECKOUT …]

For each package of bytenmt/, for tests/ and tools/: lines (docstrings and blanks included), files,
classes, functions, and statements `raise` and `except`; then the commands of the command line and
the options of `serve`. With several checkouts, of any commits, the rows stand below each other.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

COLUMNS = {
    "lines": None,
    "files": None,
    "classes": ast.ClassDef,
    "functions": (ast.FunctionDef, ast.AsyncFunctionDef),
    "raise": ast.Raise,
    "except": ast.ExceptHandler,
}


def count_file(path: Path) -> Counter[str]:
    """Return the counts of a file by the names of COLUMNS."""
    text = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    counts = Counter({"lines": text.count("\n"), "files": 1})
    for name, kind in COLUMNS.items():
        if kind is not None:
            counts[name] += sum(isinstance(node, kind) for node in nodes)
    return counts


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
        return subprocess.run(
            command, cwd=root, check=True, capture_output=True, encoding="utf-8"
        ).stdout

    commands = help_of().partition("Commands:")[2]
    return len(re.findall(r"^  [a-z]", commands, re.MULTILINE)), len(
        re.findall(r"^ +-", help_of("serve"), re.MULTILINE)
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT")
    roots = parser.parse_args().checkouts or [Path(__file__).parents[1]]
    print("| | " + " | ".join(COLUMNS) + " |\n|---|" + "---:|" * len(COLUMNS))
    for root in map(Path.resolve, roots):
        for row, counts in count_checkout(root).items():
            print(f"| {row} | " + " | ".join(f"{counts[name]:,}" for name in COLUMNS) + " |")
        n_commands, n_options = count_commands(root)
        print(f"\n{root.name}: {n_commands} commands, {n_options} options of serve\n")


if __name__ == "__main__":
    main()
