"""Count the code and its concepts, and the files that everyday calls pass through.

    python tools/verify/structure.py [--root CHECKOUT] [--paths] [--json FILE]

Prints lines, files, classes and functions of bytenmt/, tests/ and tools/, the public class names of the
package that are defined more than once, the number of files in the cache key of the compiled interpreter, and
the longest functions. --paths also counts the distinct files of the package that Python enters on five call
paths, from the second item on: a line from standard input to standard output, an update of a training, a
predicted text, a server request and a document. The search then runs as plain Python on NumPy, so that its
files are seen. --root measures another checkout, of any commit, by the same rules.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDERS = ("bytenmt", "tests", "tools")
N_LONGEST = 8  # functions that are listed
SECONDS = 300  # until a call path must have been walked
INTERPRETER = "decoding/cpu/interpreter.py"

# The beginning of every child program. `seen` collects the files of the package whose functions are entered,
# in all threads; each program clears it when its second item begins and calls `finish` when that has ended.
PRELUDE = """
import os, sys, threading, time
root, folder = sys.argv[1:3]
sys.path.insert(0, root)
package = os.path.join(root, "bytenmt") + os.sep
seen = set()

def note(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(package):
        seen.add(frame.f_code.co_filename[len(package):])

def finish():
    files = sorted(seen)
    sys.__stderr__.write("\\nFILES " + " ".join(files) + "\\n")
    sys.__stderr__.flush()
    os._exit(0)

threading.setprofile(note)
import bytenmt.decoding.cpu.compilation as compilation
# Nothing is compiled, and whoever waits for that waits: the search runs as Python.
compilation.CHILD = "import time; time.sleep(100)"
from bytenmt.cli.main import main
model = os.path.join(root, "data", "models", "en-de")
"""
LINE = """
stdin, feed = os.pipe()
read, stdout = os.pipe()
os.dup2(stdin, 0)
os.dup2(stdout, 1)

def client():
    with os.fdopen(read, "rb", buffering=0) as answers:
        for text in (b"Hi.\\n", b"No!\\n"):
            seen.clear()
            os.write(feed, text)
            answer = b""
            while not answer.endswith(b"\\n"):
                answer += answers.read(1)
    finish()

threading.Thread(target=client, daemon=True).start()
sys.setprofile(note)
options = ["--threads", "1", "--max-len-a", "0", "--max-len-b", "4"]
main(["translate", "-m", model, *options], standalone_mode=False)
"""
TRAIN = """
import bytenmt, bytenmt.training.trainer as trainer
update, n = trainer.Trainer.update, 0

def counted(*arguments, **more):
    global n
    n += 1
    if n == 3:
        finish()
    if n == 2:
        seen.clear()
    return update(*arguments, **more)

trainer.Trainer.update = counted
for name in ("src", "tgt"):
    with open(os.path.join(folder, name), "w") as file:
        file.writelines(f"line {i}\\n" for i in range(200))
files = {name: os.path.join(folder, name) for name in ("src", "tgt")}
sys.setprofile(note)
bytenmt.train(os.path.join(folder, "run"), arch="luong", preset="tiny", max_tokens=300, max_updates=9,
              threads=1, device="cpu", valid_src=files["src"], valid_tgt=files["tgt"], **files)
"""
PREDICT = """
import bytenmt
text = os.path.join(folder, "text")
with open(text, "w") as file:
    file.writelines(f"line {i}\\n" for i in range(99))
run = os.path.join(folder, "run")
bytenmt.train(run, text=text, valid_text=text, arch="seq2seq", preset="tiny", max_tokens=300, max_updates=1,
              threads=1, device="cpu")
arguments = ["predict", "-m", run, "--engine", "torch", "--no-reference", text]
for _ in range(2):
    seen.clear()
    sys.setprofile(note)
    main(arguments, standalone_mode=False)
    sys.setprofile(None)
finish()
"""
SERVE = """
import json, socket
from urllib.request import Request, urlopen
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]

def client():
    body = json.dumps({"q": "Hi.", "source": "en", "target": "de"}).encode()
    address = f"http://127.0.0.1:{port}/"
    for attempt in range(600):
        try:
            urlopen(address + "languages", timeout=60).read()
            break
        except OSError:
            time.sleep(0.5)
    for _ in range(2):
        seen.clear()
        request = Request(address + "translate", body, {"content-type": "application/json"})
        urlopen(request, timeout=200).read()
    time.sleep(1)  # what ends a request comes after its answer
    finish()

threading.Thread(target=client, daemon=True).start()
sys.setprofile(note)
main(["serve", "-m", f"en-de={model}", "--port", str(port), "--threads", "1"], standalone_mode=False)
"""
DOCUMENT = """
for number in range(2):
    path = os.path.join(folder, f"{number}.json")
    with open(path, "w") as file:
        file.write('{"title": "Hi <b>you</b>"}')
    seen.clear()
    sys.setprofile(note)
    main(["translate-file", "-m", model, path, os.path.join(folder, f"out{number}.json"), "--threads", "1"],
         standalone_mode=False)
    sys.setprofile(None)
finish()
"""
PATHS = {
    "a line of standard input": LINE,
    "an update of a training": TRAIN,
    "a predicted text": PREDICT,
    "a server request": SERVE,
    "a document of one unit": DOCUMENT,
}


def python_files(root: Path, folder: str) -> Iterator[Path]:
    """Yield the Python files below a folder of a checkout, in order."""
    return (path for path in sorted((root / folder).rglob("*.py")) if "__pycache__" not in path.parts)


def count_code(root: Path, folder: str) -> dict[str, int]:
    """Return the number of lines, files, classes and functions below a folder; methods count as functions."""
    counts = {"lines": 0, "files": 0, "classes": 0, "functions": 0}
    for path in python_files(root, folder):
        text = path.read_text(encoding="utf-8")
        counts["files"] += 1
        counts["lines"] += text.count("\n")
        for node in ast.walk(ast.parse(text)):
            counts["classes"] += isinstance(node, ast.ClassDef)
            counts["functions"] += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return counts


def repeated_classes(root: Path) -> dict[str, list[str]]:
    """Return the public class names of the package that several files define, with those files."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for path in python_files(root, "bytenmt"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(path.relative_to(root / "bytenmt")))
    return {name: places for name, places in sorted(files.items()) if len(places) > 1}


def longest_functions(root: Path) -> list[tuple[int, str]]:
    """Return the number of lines and the names of the longest functions of the package."""
    found = []
    for path in python_files(root, "bytenmt"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                n_lines = (node.end_lineno or node.lineno) - node.lineno + 1
                found.append((n_lines, f"{path.relative_to(root / 'bytenmt')}: {node.name}"))
    return sorted(found, reverse=True)[:N_LONGEST]


def cache_key_files(root: Path) -> list[str]:
    """Return the files whose change compiles the interpreter again."""
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]);"
        " from bytenmt import kernel_cache as c; from bytenmt.kernel_cache import PACKAGE;"
        " of = getattr(c, 'covered', None) or c.imported_files;"
        f" print(*sorted(str(p.relative_to(PACKAGE)) for p in of(PACKAGE / {INTERPRETER!r})))"
    )
    return _python(program, root).stdout.split()


def files_of_path(root: Path, program: str) -> list[str]:
    """Return the files of the package that Python enters while the second item of a call path is handled.

    Raises RuntimeError where the program ends without an answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = _python(PRELUDE + program, root, folder)
    for line in result.stderr.splitlines():
        if line.startswith("FILES "):
            return line.split()[1:]
    raise RuntimeError(result.stderr[-2000:])


def _python(program: str, root: Path, folder: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", program, str(root), folder]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)


def main() -> None:
    """Measure a checkout and print the figures."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--paths", action="store_true", help="also count the files of five call paths")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    root = options.root.resolve()
    figures: dict[str, Any] = {folder: count_code(root, folder) for folder in FOLDERS}
    for folder in FOLDERS:
        print(f"{folder}:", ", ".join(f"{n:,} {what}" for what, n in figures[folder].items()))
    figures["repeated classes"] = repeated_classes(root)
    print(f"public class names with several definitions: {len(figures['repeated classes'])}")
    for name, places in figures["repeated classes"].items():
        print(f"  {name}: {', '.join(places)}")
    figures["cache key"] = cache_key_files(root)
    print(f"files in the cache key of the interpreter: {len(figures['cache key'])}")
    figures["longest functions"] = longest_functions(root)
    print("longest functions:", "; ".join(f"{name} ({n})" for n, name in figures["longest functions"]))
    if options.paths:
        figures["paths"] = {name: files_of_path(root, program) for name, program in PATHS.items()}
        for name, files in figures["paths"].items():
            print(f"{name}: {len(files)} files")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
