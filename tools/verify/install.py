"""Check an installation without PyTorch and Numba in fresh environments.

    python tools/verify/install.py --python python3.11 python3.12

Builds the wheel and the source distribution, installs the wheel into an environment of each Python,
and runs every command that needs no PyTorch on the models of the clone, and some commands that need
it, whose error message is printed. Prints the size of the environment and of its largest packages,
and the time of a first and a later translation. Exits with 1 where a command succeeds or fails
unexpectedly.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
N_LARGEST_PACKAGES = 6  # number of packages whose sizes are printed
Step = tuple[str, list[str], bool]  # description, arguments, whether it works without PyTorch


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="Python interpreters")
    parser.add_argument("--model", type=Path, default=CHECKOUT / "data" / "models" / "en-de")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build_wheel(folder)
        for python in options.python:
            failed |= not check_installation(python, wheel, folder, options.model.resolve())
    sys.exit(1 if failed else 0)


def build_wheel(folder: Path) -> Path:
    """Build the source distribution, and from it the wheel, so that both are complete."""
    tools = folder / "tools"
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
    pip = [str(tools / "bin" / "python"), "-m", "pip", "install", "--quiet", "build"]
    subprocess.run(pip, check=True)
    build = [pip[0], "-m", "build", "--outdir", str(folder / "dist"), str(CHECKOUT)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    for file in sorted((folder / "dist").iterdir()):
        print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
    return next((folder / "dist").glob("*.whl"))


def check_installation(python: str, wheel: Path, folder: Path, model: Path) -> bool:
    """Return whether the installation in an environment of one Python works."""
    place = folder / Path(python).name
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    own = str(place / "bin" / "python")
    told = subprocess.run([own, "--version"], capture_output=True, text=True, check=True)
    version = told.stdout.strip()
    limits = CHECKOUT / "tools" / "constraints.txt"
    subprocess.run([own, "-m", "pip", "install", "-q", "-c", str(limits), str(wheel)], check=True)
    print(f"\n== {version}: {', '.join(sizes(place))}")
    work = place / "work"
    work.mkdir()
    (work / "src").write_text("How much is it?\nI am here.\n", encoding="utf-8")
    (work / "ref").write_text("Wie viel kostet es?\nIch bin hier.\n", encoding="utf-8")
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    good = True
    for what, arguments, works in steps(model):
        began = time.perf_counter()
        command = [str(place / "bin" / "bytenmt"), *arguments]
        run = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        refused = run.returncode == 1 and "pip install" in run.stderr
        as_expected = run.returncode == 0 if works else refused
        good &= as_expected
        last = (run.stdout if works and as_expected else run.stderr).strip().splitlines()[-1:]
        state = "ok" if as_expected else "WRONG"
        print(f"{state:6}{what:28}{seconds:7.2f} s  {''.join(last)[:90]}")
    shutil.rmtree(place)
    return good


def steps(model: Path) -> Iterator[Step]:
    """Yield the commands to try; the first translation comes first, before files are cached."""
    run = [str(model)]
    yield "translate, first answer", ["translate", *run, "-i", "src"], True
    yield "translate, later answer", ["translate", *run, "-i", "src"], True
    beam = ["-b", "4", "--n-best", "2", "--format", "jsonl"]
    yield "translate, jsonl", ["translate", *run, "-i", "src", *beam], True
    yield "translate-file", ["translate-file", *run, "src", "out.txt", "--format", "text"], True
    pair = ["--src", "src", "--ref", "ref"]
    yield "log-probabilities", ["evaluate", *run, *pair, "--log-probabilities"], True
    yield "info", ["info", str(model)], True
    yield "convert", ["convert", str(model), "-o", "fp32.safetensors", "--precision", "fp32"], True
    yield "evaluate", ["evaluate", *run, *pair], False
    yield "translate by PyTorch", ["translate", *run, "-i", "src", "--engine", "torch"], False
    text = ["--src", "src", "--tgt", "ref", "--valid-src", "src", "--valid-tgt", "ref"]
    yield "train", ["train", "-o", "new", "--arch", "luong", *text], False


def sizes(place: Path) -> Sequence[str]:
    """Return the size of an environment and of its largest packages, without Python's own."""
    packages = next(place.glob("lib/python*/site-packages"))
    found = {one.name: size(one) for one in packages.iterdir() if not one.name.startswith("pip")}
    largest = sorted(found, key=lambda name: -found[name])[:N_LARGEST_PACKAGES]
    total = f"{sum(found.values()) / 1e6:.0f} MB"
    return [total, *(f"{name} {found[name] / 1e6:.0f}" for name in largest)]


def size(path: Path) -> int:
    """Return the bytes of a file or a folder."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sum(one.stat().st_size for one in files)


if __name__ == "__main__":
    main()
