"""Check and measure bytenmt on a GPU, and train a model there, in one program.

    # the wheels that a bare machine lacks
    python tools/bench/gpu.py --needs
    # the first call, about five minutes
    python tools/bench/gpu.py check speed -o out
    # the second call, seven minutes
    python tools/bench/gpu.py train -o out --recipe shipped-en-de
    # on a CPU, small, within five minutes
    python tools/bench/gpu.py check speed train -o out --dry-run

check   CPU and GPU agree in every architecture: outputs, gradients, losses, resume, decoded text;
        the CUDA graph is replayed; the operations of an update that wait for the GPU
speed   training in bytes a second and as a share of the best matrix product, beside plain PyTorch
        models of as many weights; decode steps beside their floor
train   a shipped model's recipe, as wide as 15 MB of int8 weights allow, on the text that
        `tools/get_data.py --pack` has written to packed/

Each part runs in a process of its own with a limit of time, and one that fails does not stop the
next one. Every figure is appended to OUT/records.jsonl at once; at the end OUT/gpu.json holds all
of them, and a table is printed. The exit code is 1 if a part failed or a check did. No file of OUT
is larger than 15 MB.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # the checkout: tools import each other

LIMITS = {"check": 100, "speed": 150, "train": 400}  # seconds on a GPU
DRY_LIMITS = {"check": 120, "speed": 80, "train": 90}
# Packages that a bare machine has; their own requirements come with them.
BARE = {"torch", "numpy", "numba", "llvmlite"}
RECORDS = "records.jsonl"
ARCHITECTURES = ["seq2seq", "bahdanau", "luong", "bytenet", "convs2s", "transformer"]


def needed_packages() -> list[str]:
    """Return the packages besides BARE that training needs, in all, as a requirements file.

    `pip download --no-deps -r` fetches the wheels. A package that is not installed does not tell
    its needs.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    constraints = (ROOT / "tools/constraints.txt").read_text("utf-8")
    pinned = constraints.lower().replace("_", "-").splitlines()
    todo = [*project["dependencies"], *project["optional-dependencies"]["train"]]
    found: dict[str, str] = {}
    while todo:
        requirement, _, marker = todo.pop(0).partition(";")
        matched = re.match(r"[\w.-]+", requirement)
        name = matched[0].lower().replace("_", "-") if matched else ""
        if name in BARE or name in found or re.search("extra|win32|Windows", marker):
            continue
        found[name] = next((line for line in pinned if line.startswith(f"{name}==")), name)
        with suppress(importlib.metadata.PackageNotFoundError):
            todo += importlib.metadata.requires(name) or []
            found[name] = f"{name}=={importlib.metadata.version(name)}"
    return list(found.values())


def run_part(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run a part in a process of its own; return its status and the seconds that it took."""
    limit = (DRY_LIMITS if options.dry_run else LIMITS)[part]
    folders = {name: str(getattr(options, name).resolve()) for name in ("output", "corpora")}
    work = {"part": part, "seconds": limit, "dry": options.dry_run, **folders}
    work |= {"architectures": options.arch, "recipes": options.recipe}
    program = "from tools.bench.gpu_parts import main; main()"
    words = [sys.executable, "-c", program, json.dumps(work)]
    started = time.monotonic()
    try:
        code = subprocess.run(words, cwd=ROOT, timeout=limit + 10).returncode
        status = "done" if code == 0 else f"failed with {code}"
    except subprocess.TimeoutExpired:
        status = f"stopped after {limit + 10} s"
    return {"part": part, "status": status, "seconds": round(time.monotonic() - started, 1)}


def format_table(parts: Sequence[dict[str, Any]], records: Sequence[dict[str, Any]]) -> str:
    """Return the figures as a Markdown table, with a row for each part."""
    lines = ["| part | what | value | beside | |", "|---|---|---:|---:|---|"]
    for one in parts:
        lines.append(f"| {one['part']} | | {one['seconds']:g} s | | {one['status']} |")
        for record in (record for record in records if record["part"] == one["part"]):
            state = "" if record["ok"] else "FAILED"
            reference = f"{record['reference']:.4g}" if record["reference"] else ""
            value = f"{record['value']:.4g} {record['unit']}".strip()
            note = f"{state} {record['note']}".strip()
            lines.append(f"| | {record['case']} | {value} | {reference} | {note} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="check, speed, train")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="folder of the results")
    parser.add_argument("--arch", nargs="+", default=ARCHITECTURES, help="only these architectures")
    recipes = ["shipped-en-de"]
    parser.add_argument("--recipe", nargs="+", default=recipes, help="of train (%(default)s)")
    packed = ROOT / "packed"
    parser.add_argument("--corpora", type=Path, default=packed, help="text of train (%(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="small sizes, on the CPU")
    parser.add_argument("--needs", action="store_true", help="list wheels a bare machine lacks")
    options = parser.parse_args(arguments)
    if options.needs:
        print("\n".join(needed_packages()))
        return 0
    if not options.parts or set(options.parts) - LIMITS.keys() or options.output is None:
        parser.error("give --needs, or parts (check, speed, train) and -o")
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / RECORDS
    file.unlink(missing_ok=True)
    parts = [run_part(part, options) for part in options.parts]
    written = file.read_text("utf-8") if file.is_file() else ""
    records = [json.loads(line) for line in written.splitlines()]
    text = json.dumps({"parts": parts, "records": records}, indent=1)
    (options.output / "gpu.json").write_text(text + "\n", "utf-8")
    print(format_table(parts, records))
    has_failed = any(one["status"] != "done" for one in parts)
    return int(has_failed or not all(one["ok"] for one in records))


if __name__ == "__main__":
    sys.exit(main())
