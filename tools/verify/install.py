"""Check an installation without PyTorch and Numba in fresh environments.

    python tools/verify/install.py --python python3.11 python3.12

Builds the wheel and the source distribution, installs the wheel into an environment of each Python,
and runs every command that needs no PyTorch on the models of the clone, and some commands that need
it, whose error message is printed: first in a bare installation, then with the packages of the
server and with sacreBLEU. Prints the size of the environment and of its largest packages. With the
first Python it then measures, beside CTranslate2, the time until the first translation, see
first_answer.py. Exits with 1 where a command succeeds or fails unexpectedly, or where the
installation is too large. --no-times leaves out the times.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

from tools.served import run_server

CHECKOUT = Path(__file__).resolve().parents[2]
CONSTRAINTS = CHECKOUT / "tools" / "constraints.txt"
N_LARGEST_PACKAGES = 6  # number of packages whose sizes are printed
MAX_MEGABYTES = 90  # of the installation, without pip and setuptools
SETUPTOOLS = ("setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
ABSENT = ("numba", "llvmlite", "torch")
EXTRA_PACKAGES = ("sacrebleu",)  # of `evaluate`
N_THREADS = min(2, len(os.sched_getaffinity(0)))  # of the programs that are compared
# Writes a language model with random weights, since the clone has none.
LANGUAGE_MODEL = """
from pathlib import Path
import numpy as np
from bytenmt.architectures.parameters import parameter_shapes
from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.weights import write_weights_file
from bytenmt.config.schema import load_config
config = load_config("luong", "tiny", ["model.source=false"])
draw = np.random.default_rng(1)
shapes = parameter_shapes(config.model)
arrays = {name: 0.1 * draw.standard_normal(shape, np.float32) for name, shape in shapes.items()}
write_weights_file(Path("language.safetensors"), arrays, config, Facts())
"""


class Step(NamedTuple):
    """A command to try."""

    description: str
    arguments: list[str]
    works: bool = True  # whether it needs no package that is not installed


class Environment:
    """A virtual environment with its commands."""

    def __init__(self, python: str, place: Path) -> None:
        """python: the interpreter that makes it. place: its folder."""
        subprocess.run([python, "-m", "venv", str(place)], check=True)
        self.place = place
        self.python = str(place / "bin" / "python")

    def install(self, *requirements: str) -> float:
        """Install packages; return the seconds."""
        began = time.perf_counter()
        command = [self.python, "-m", "pip", "install", "-q", "-c", str(CONSTRAINTS), *requirements]
        subprocess.run(command, check=True)
        return time.perf_counter() - began

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return those of the packages that are not installed."""
        code = "import importlib.util as u; import sys; print(*filter(u.find_spec, sys.argv[1:]))"
        command = [self.python, "-c", code, *names]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        return [name for name in names if name not in run.stdout.split()]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="Python interpreters")
    parser.add_argument("--model", type=Path, default=CHECKOUT / "data" / "models" / "en-de")
    parser.add_argument("--no-times", dest="times", action="store_false")
    options = parser.parse_args()
    # The programs must not find the checkout, and their bytecode is stored as a user's is.
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)
    model = options.model.resolve()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build_wheel(folder)
        for number, python in enumerate(options.python):
            environment = Environment(python, folder / f"environment-{number}")
            failed |= not check_installation(environment, wheel, model)
            if options.times and number == 0:
                measure_times(environment, python, model, folder)
    sys.exit(1 if failed else 0)


def build_wheel(folder: Path) -> Path:
    """Build the source distribution, and from it the wheel, so that both are complete."""
    environment = Environment(sys.executable, folder / "tools")
    environment.install("build")
    output = folder / "dist"
    build = [environment.python, "-m", "build", "--outdir", str(output), str(CHECKOUT)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    for file in sorted(output.iterdir()):
        print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
    return next(output.glob("*.whl"))


def check_installation(environment: Environment, wheel: Path, model: Path) -> bool:
    """Return whether the installation in an environment works and is small enough."""
    seconds = environment.install(str(wheel))
    version = subprocess.run(
        [environment.python, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    print(f"\n== {version}: installed in {seconds:.0f} s")
    good = check_size(environment)
    work = environment.place / "work"
    work.mkdir()
    (work / "src").write_text("How much is it?\nI am here.\n", encoding="utf-8")
    (work / "page.html").write_text("<p>How <b>much</b> is it?</p>\n", encoding="utf-8")
    (work / "ref").write_text("Wie viel kostet es?\nIch bin hier.\n", encoding="utf-8")
    subprocess.run([environment.python, "-c", LANGUAGE_MODEL], cwd=work, check=True)
    for step in bare_steps(model):
        good &= try_step(environment, step, work)
    environment.install(f"{wheel}[serve]", *EXTRA_PACKAGES)
    absent = environment.missing(ABSENT)
    print(f"-- with the packages of serve and {', '.join(EXTRA_PACKAGES)}; without", *absent)
    good &= absent == list(ABSENT)
    for step in further_steps(model):
        good &= try_step(environment, step, work)
    return check_server(environment, model, work) and good


def check_size(environment: Environment) -> bool:
    """Print what is installed; return whether it is small and has none of the absent packages."""
    packages = next(environment.place.glob("lib/python*/site-packages"))
    found = {one.name: size(one) for one in packages.iterdir() if not one.name.startswith("pip")}
    of_setuptools = sum(found[name] for name in found if name.startswith(SETUPTOOLS)) / 1e6
    megabytes = sum(found.values()) / 1e6 - of_setuptools
    largest = sorted(found, key=lambda name: -found[name])[:N_LARGEST_PACKAGES]
    absent = environment.missing(ABSENT)
    print(
        f"site-packages without pip and setuptools: {megabytes:.1f} MB, at most {MAX_MEGABYTES};"
        f" setuptools {of_setuptools:.1f};",
        ", ".join(f"{name} {found[name] / 1e6:.1f}" for name in largest),
    )
    print("not installed:", *absent)
    return megabytes <= MAX_MEGABYTES and absent == list(ABSENT)


def size(path: Path) -> int:
    """Return the bytes of a file or a folder."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sum(one.stat().st_size for one in files)


def try_step(environment: Environment, step: Step, work: Path) -> bool:
    """Run a command, print its time and last line, and return whether it ended as expected."""
    began = time.perf_counter()
    command = [str(environment.place / "bin" / "bytenmt"), *step.arguments]
    run = subprocess.run(command, cwd=work, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if step.works:
        good = run.returncode == 0
    else:
        good = run.returncode == 1 and "pip install" in run.stderr
    output = run.stderr
    if step.works and good:
        output = run.stdout
    print_result(good, step.description, seconds, output)
    return good


def print_result(good: bool, description: str, seconds: float, output: str) -> None:
    """Print a line about a command, with the last line of its output."""
    last = "".join(output.strip().splitlines()[-1:])
    print(f"{'ok' if good else 'WRONG':6}{description:28}{seconds:7.2f} s  {last[:90]}", flush=True)


def bare_steps(model: Path) -> Iterator[Step]:
    """Yield the commands to try in an installation without extras."""
    run = [str(model)]
    yield Step("translate, first start", ["translate", *run, "-i", "src"])
    yield Step("translate, second start", ["translate", *run, "-i", "src"])
    beam = ["-b", "4", "--n-best", "2", "--format", "jsonl"]
    yield Step("translate, jsonl", ["translate", *run, "-i", "src", *beam])
    yield Step("translate-file", ["translate-file", *run, "src", "out.txt", "--format", "text"])
    pair = ["--src", "src", "--ref", "ref"]
    yield Step("log-probabilities", ["evaluate", *run, *pair, "--log-probabilities"])
    yield Step("predict", ["predict", "language.safetensors", "ref"])
    yield Step("generate", ["generate", "language.safetensors", "--bytes", "40", "--prompt", "Das"])
    yield Step("info", ["info", *run])
    yield Step("convert", ["convert", *run, "-o", "fp32.safetensors", "--precision", "fp32"])
    yield Step("evaluate", ["evaluate", *run, *pair], works=False)
    yield Step("serve", ["serve", f"en-de={model}", "--port", "0"], works=False)
    yield Step(
        "translate by PyTorch", ["translate", *run, "-i", "src", "--engine", "torch"], works=False
    )
    text = ["--src", "src", "--tgt", "ref", "--valid-src", "src", "--valid-tgt", "ref"]
    yield Step("train", ["train", "-o", "new", "--arch", "luong", *text], works=False)


def further_steps(model: Path) -> Iterator[Step]:
    """Yield the commands to try with the packages of the server and sacreBLEU, still without
    PyTorch."""
    pair = ["--src", "src", "--ref", "ref"]
    yield Step("evaluate", ["evaluate", str(model), *pair])
    yield Step("evaluate a translation", ["evaluate", "--hyp", "out.txt", *pair])
    yield Step("evaluate both", ["evaluate", str(model), "--hyp", "out.txt", *pair])
    page = ["translate-file", str(model), "page.html", "page.de.html"]
    yield Step("translate-file, HTML", page)


def check_server(environment: Environment, model: Path, work: Path) -> bool:
    """Start the server on loopback, translate a sentence, and return whether it could."""
    began = time.perf_counter()
    with run_server(work, f"en-de={model}", checkout=work, python=environment.python) as server:
        answer = server.post("translate", q="Save", source="en", target="de")
        code = server.terminate()
    good = bool(answer.get("translatedText")) and code == 0
    print_result(good, "serve, POST /translate", time.perf_counter() - began, str(answer))
    return good


def measure_times(environment: Environment, python: str, model: Path, folder: Path) -> None:
    """Compare the times of first and later answers with those of CTranslate2."""
    from tools.verify import first_answer

    peer = Environment(python, folder / "peer")
    peer.install("ctranslate2")
    command = [str(environment.place / "bin" / "bytenmt"), "translate", str(model)]
    lines = [first_answer.SENTENCE, first_answer.LATER_SENTENCE]
    own = first_answer.Filter("bytenmt", [*command, "--threads", str(N_THREADS)], lines)
    filters = [own, first_answer.peer_filter(peer.python, folder / "peer-model", N_THREADS)]
    first_answer.compare(filters)
    first_answer.compare_cold(filters)


if __name__ == "__main__":
    main()
