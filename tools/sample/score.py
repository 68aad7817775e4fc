"""Score translations of the sample: exact match, family by family and in total."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path


def exact_match(
    hypotheses: Sequence[str], references: Sequence[str], families: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Count the exact matches and the lines of each family, and of "all" at the end."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for hypothesis, reference, family in zip(hypotheses, references, families, strict=True):
        for name in (family, "all"):
            counts[name][0] += hypothesis == reference
            counts[name][1] += 1
    names = [*sorted(counts.keys() - {"all"}), "all"]
    return {name: (counts[name][0], counts[name][1]) for name in names}


def report(counts: dict[str, tuple[int, int]]) -> str:
    """Return an aligned table of the families, then the total on a line of its own."""
    width = max(len("family"), *map(len, counts))
    lines = [f"{'family':{width}}  right  lines  exact match"]
    for name, (right, total) in counts.items():
        if name != "all":
            lines.append(f"{name:{width}}  {right:5}  {total:5}  {100 * right / total:9.1f} %")
    right, total = counts["all"]
    return "\n".join([*lines, f"exact match: {100 * right / total:.1f} %"])


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; only a line feed ends one, as translations may contain any bytes."""
    return path.read_bytes().decode(errors="replace").removesuffix("\n").split("\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code, 1 with one line on stderr if the files do not match."""
    parser = argparse.ArgumentParser(
        description="Print exact match of translations of the sample, by family."
    )
    for name in ("hypothesis", "reference", "family"):
        parser.add_argument(name, type=Path, help="a file with a line for each sentence")
    names = list(vars(parser.parse_args(arguments)).values())
    try:
        columns = [read_lines(name) for name in names]
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    if len({len(column) for column in columns}) > 1:
        sizes = ", ".join(f"{name} {len(lines)}" for name, lines in zip(names, columns, strict=True))
        print(f"error: the files differ in their number of lines: {sizes}", file=sys.stderr)
        return 1
    print(report(exact_match(*columns)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
