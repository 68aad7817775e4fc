"""The fuzzer: a short one finds nothing, and in a program with a fault it finds the fault."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bytenmt.cli.main import main
from tools.verify import fuzz_options

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# A process of its own, because one with threads must not fork; the same one for all, because it imports much.
PROGRAM = """
import json, os, sys, tempfile, time
from pathlib import Path
from tools.verify import fuzz, fuzz_children
from bytenmt.checkpoints import weights

def kinds(numbers, kind="files"):
    fuzzer = fuzz.Fuzzer(cases, place, 7, engine, [kind])
    if kind == "requests":
        fuzzer.warm_up()
    return [one.kind for one in fuzz_children.run_in_children(fuzzer.run, numbers, place)]

def planted(name, fault, numbers):
    own = getattr(weights, name)
    setattr(weights, name, fault)
    try:
        return kinds(numbers)
    finally:
        setattr(weights, name, own)

fuzz.torch.set_num_threads(1)
found = {}
with tempfile.TemporaryDirectory() as folder:
    place = Path(folder)
    cases = fuzz.make_cases(place)
    for engine in ("torch", "numba"):
        fuzz.Fuzzer(cases, place, 7, engine, ["files"]).warm_up()
        found[engine] = kinds(range(50))
    for kind in ("options", "documents", "requests"):
        found[kind] = kinds(range(25), kind)
    few = [number for number, kind in enumerate(found["numba"]) if kind == "output"][:2]
    fuzz_children.CPU_SECONDS = fuzz_children.WALL_FACTOR = 1
    found["unchecked"] = planted("describe_misfit", lambda *parts: None, range(50))
    found["believed"] = planted("parse_facts", lambda facts: 1 / 0, few)
    found["hanging"] = planted("parse_facts", lambda facts: time.sleep(60), few)
    found["crashing"] = planted("parse_facts", lambda facts: os.abort(), few)
    found["hungry"] = planted("parse_facts", lambda facts: bytes(bytearray(5 << 30)) and facts, few)
print(json.dumps(found))
"""


def test_a_short_one_finds_nothing_and_a_fault_is_found() -> None:
    """Fifty mutations of files by both engines and 25 of each other kind; then planted faults."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{PROGRAM}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for engine in ("torch", "numba"):
        assert set(found[engine]) == {"output", "refused"} and len(found[engine]) == 50
        assert 5 < found[engine].count("output") < 35
    for kind in ("options", "documents", "requests"):
        assert set(found[kind]) <= {"output", "refused", "usage"} and len(set(found[kind])) > 1
        assert len(found[kind]) == 25
    assert "misfit" in found["unchecked"]
    assert [set(found[name]) for name in ("believed", "hanging", "crashing", "hungry")] == [
        {"traceback"},
        {"time"},
        {"signal"},
        {"memory"},
    ]


def test_every_command_is_tried_or_says_why_not() -> None:
    paths = fuzz_options.Paths(*[Path(name) for name in ("run", "language", "text", "document", "out")])
    tried = fuzz_options.commands()
    for name in tried:
        line = fuzz_options.valid_line(name, paths)
        assert line[: len(name.split())] == name.split()
    assert {name.split()[0] for name in tried} | set(fuzz_options.NOT_TRIED) == set(main.every())
