"""Print a table of all operations of programs, with the objects of the package that executed them.

    python tools/verify/op_table.py

Decodes with the small models of the tests, which have every option of the architectures, in fp32
and int8 by each object that this processor can execute, and compares fp32 with the PyTorch engine.
A cell is the number of models whose programs had the operation. Exits with 1 where an object has
not executed an operation, or where translations differ.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout
    sys.path.append(f"{sys.path[0]}/tests/helpers")

from bytenmt.decoding.cpu.library import VARIABLE, load_engine, usable_families
from bytenmt.decoding.interface import SearchOptions
from bytenmt.program.instructions import Field, Op

N_SENTENCES = 4


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--of-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.of_process:
        print(json.dumps([load_engine().family, count_models()]))
        return
    counts = {family.name: count_apart(family.name) for family in usable_families("")}
    print("\n".join(table(counts)))
    if any(op.name not in counted for counted in counts.values() for op in Op):
        sys.exit("an object has not executed an operation")


def count_apart(family: str) -> dict[str, int]:
    """Return the number of models by operation, of a process that decodes by the object of a
    family."""
    run = subprocess.run(
        [sys.executable, __file__, "--of-process"],
        env={**os.environ, VARIABLE: family},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    executed_by, counted = json.loads(run.stdout)
    if executed_by != family:
        raise RuntimeError(f"{executed_by} has been used instead of {family}")
    found: dict[str, int] = counted
    return found


def count_models() -> dict[str, int]:
    """Decode with all models; return the number of models by operation.

    Raises AssertionError where the engines differ.
    """
    from bytenmt.decoding.cpu.engine import NumbaEngine

    cpu_engines = importlib.import_module("cpu_engines")
    counted = Counter[str]()
    search = SearchOptions(beam=2)
    for name in cpu_engines.ALL:
        model = cpu_engines.model(name)
        requests = cpu_engines.some_requests(N_SENTENCES, model.config.source)
        expected = cpu_engines.run(cpu_engines.engine("torch", [model], search), requests)
        for precision in ("fp32", "int8"):
            packed = cpu_engines.packed(model, precision)
            found = cpu_engines.run(NumbaEngine([packed], search, N_SENTENCES), requests)
            if precision == "fp32":
                cpu_engines.agree(found, expected)
        programs = (packed.program.encode, packed.program.step)
        counted.update(
            {Op(code).name for one in programs for code in one.instructions[:, Field.OP]}
        )
    return dict(counted)


def table(counts: dict[str, dict[str, int]]) -> list[str]:
    """Return the lines of a table in Markdown. counts: models by operation, by family."""
    lines = [f"| operation | {' | '.join(counts)} |", "|---|" + "---:|" * len(counts)]
    for op in Op:
        cells = [str(counted.get(op.name, 0)) for counted in counts.values()]
        lines.append(f"| {op.name} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
